// The encoder-decoder Transformer of lesson 06 in plain JavaScript: pre-norm, sinusoidal positions, ReLU, greedy decoding with the
// key-value cache, beam search. Every tensor stays readable.
//
//   bundle: {config: {dim, num_heads, hidden_dim, num_layers, max_len}, source_tokens, target_tokens,
//            special: {pad_id, bos_id, eos_id, unk_id}, weights: a safetensors file in half precision, in base64}
//   const model = openTransformer(bundle)
//   model.tokenize(text)                  {ids, tokens}, EOS last; throws ReaderError {message, kind, word, suggestions}
//   const run = model.start(ids, switches)  encodes at once; the decoder has no rows yet
//   run.step()                            one greedy step: {id, token, probs, done}; run.force(ids) takes these tokens instead
//   run.source, run.inputs, run.tokens    tokens: of the encoder's rows, of the decoder's rows (BOS first), generated so far
//   run.ids, run.text, run.logProb, run.done
//   run.trace                             Map of block id to {id, kind, tensors}; blocks of the decoder grow by one row per step
//   run.cache                             [{key, value, memoryKey, memoryValue}] of each decoder layer: one matrix per head
//   model.translate(ids, switches)        greedy decoding to the end: a finished run
//   model.beam(ids, width, switches)      {ids, tokens, text, logProb, hypotheses, tree}; tree: steps of nodes {parent, id, token,
//                                         logProb, kept, ended}, the kept ones first, best first
//   switches: {heads: Set of "decoder.0.cross_attn.2", ..., switched off; cut: [{layer, query, key}], cross-attention links of a
//              decoder layer that are masked in all heads; positions: false; scaling: false}
//   Block ids: encoder.embedding, encoder.L.self_attn, encoder.L.feed_forward, encoder.norm, decoder.embedding,
//              decoder.L.self_attn, decoder.L.cross_attn, decoder.L.feed_forward, decoder.norm, lm_head.
//   A matrix is {rows, cols, data}, data a Float32Array, row by row. Tensors of a block:
//     embedding     tokens, positions, output
//     attention     x, normed, heads, concat, projected, output; in cross-attention also memory. heads: [{query, key, value,
//                   scores (unscaled), scaled, masked, weights, context, off}]; scores above the causal mask are there, too
//     feed_forward  x, normed, hidden, active, projected, output
//     norm          x, output
//     lm_head       x, logits, probs

class ReaderError extends Error {
  constructor(kind, message, word = null, suggestions = []) {
    super(message);
    Object.assign(this, { name: "ReaderError", kind, word, suggestions });
  }
}

const openTransformer = (() => {
  const EPS = 1e-5;
  const BASE = 10000;

  // Matrices. `data` is never written to after it is made: what grows gets a new array, so copies of a run share the old ones.

  const empty = (cols) => ({ rows: 0, cols, data: new Float32Array(0) });

  function append(matrix, more) {
    const data = new Float32Array(matrix.data.length + more.data.length);
    data.set(matrix.data);
    data.set(more.data, matrix.data.length);
    matrix.data = data;
    matrix.rows += more.rows;
  }

  function linear(x, weight, bias) {
    // x (rows, d), weight (out, d) as torch stores it
    const [out, d] = [weight.rows, weight.cols];
    const data = new Float32Array(x.rows * out);
    for (let row = 0; row < x.rows; row++) {
      const from = row * d;
      for (let unit = 0; unit < out; unit++) {
        let sum = bias ? bias.data[unit] : 0;
        const at = unit * d;
        for (let index = 0; index < d; index++) sum += x.data[from + index] * weight.data[at + index];
        data[row * out + unit] = sum;
      }
    }
    return { rows: x.rows, cols: out, data };
  }

  function add(a, b) {
    return { ...a, data: a.data.map((value, index) => value + b.data[index]) };
  }

  function columns(matrix, start, count) {
    const data = new Float32Array(matrix.rows * count);
    for (let row = 0; row < matrix.rows; row++) {
      const from = row * matrix.cols + start;
      data.set(matrix.data.subarray(from, from + count), row * count);
    }
    return { rows: matrix.rows, cols: count, data };
  }

  function layerNorm(x, weight, bias) {
    const d = x.cols;
    const data = new Float32Array(x.data.length);
    for (let from = 0; from < data.length; from += d) {
      let mean = 0;
      for (let index = 0; index < d; index++) mean += x.data[from + index];
      mean /= d;
      let variance = 0;
      for (let index = 0; index < d; index++) variance += (x.data[from + index] - mean) ** 2;
      const scale = 1 / Math.sqrt(variance / d + EPS);
      for (let index = 0; index < d; index++)
        data[from + index] = (x.data[from + index] - mean) * scale * weight.data[index] + bias.data[index];
    }
    return { ...x, data };
  }

  function softmaxRows(matrix) {
    // A row of nothing but minus infinity, fully masked, gets zeros.
    const data = new Float32Array(matrix.data.length);
    for (let from = 0; from < data.length; from += matrix.cols) {
      let largest = -Infinity;
      for (let index = from; index < from + matrix.cols; index++) largest = Math.max(largest, matrix.data[index]);
      if (largest === -Infinity) continue;
      let sum = 0;
      for (let index = from; index < from + matrix.cols; index++) sum += data[index] = Math.exp(matrix.data[index] - largest);
      for (let index = from; index < from + matrix.cols; index++) data[index] /= sum;
    }
    return { ...matrix, data };
  }

  function grid(old, rows, cols, entry) {
    // A matrix (rows, cols) that begins with the entries of `old`.
    const data = new Float32Array(rows * cols);
    for (let row = 0; row < rows; row++)
      for (let column = 0; column < cols; column++)
        data[row * cols + column] =
          row < old.rows && column < old.cols ? old.data[row * old.cols + column] : entry(row, column);
    return { rows, cols, data };
  }

  function product(a, row, b, column) {
    let sum = 0;
    for (let index = 0; index < a.cols; index++) sum += a.data[row * a.cols + index] * b.data[column * b.cols + index];
    return sum;
  }

  function lastRows(matrix, start) {
    return { rows: matrix.rows - start, cols: matrix.cols, data: matrix.data.slice(start * matrix.cols) };
  }

  function matmul(a, b) {
    const data = new Float32Array(a.rows * b.cols);
    for (let row = 0; row < a.rows; row++)
      for (let index = 0; index < b.rows; index++) {
        const factor = a.data[row * a.cols + index];
        if (factor === 0) continue;
        for (let column = 0; column < b.cols; column++) data[row * b.cols + column] += factor * b.data[index * b.cols + column];
      }
    return { rows: a.rows, cols: b.cols, data };
  }

  // Parameters

  function readSafetensors(base64) {
    // A safetensors file of half-precision tensors: the length of a JSON header, the header, the numbers.
    const letters = atob(base64);
    const bytes = new Uint8Array(letters.length);
    for (let index = 0; index < bytes.length; index++) bytes[index] = letters.charCodeAt(index);
    const first = 8 + Number(new DataView(bytes.buffer).getBigUint64(0, true));
    const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, first)));
    const tensors = new Map();
    for (const [name, { shape, data_offsets: [start, end] }] of Object.entries(header)) {
      const halves = new Uint16Array(bytes.buffer.slice(first + start, first + end));
      const data = new Float32Array(halves.length);
      for (let index = 0; index < data.length; index++) data[index] = single(halves[index]);
      tensors.set(name, { rows: shape.length > 1 ? shape[0] : 1, cols: shape.at(-1), data });
    }
    return tensors;
  }

  const POWERS = Float32Array.from({ length: 32 }, (_, exponent) => 2 ** (Math.max(exponent, 1) - 25));

  function single(half) {
    // Half precision: a sign, five bits of exponent, ten of fraction.
    const exponent = (half >> 10) & 31;
    const size = ((half & 1023) + (exponent ? 1024 : 0)) * POWERS[exponent];
    return half & 32768 ? -size : size;
  }

  function slice(matrix, start, count) {
    // Rows of a weight, or entries of a bias.
    if (matrix.rows === 1) return { rows: 1, cols: count, data: matrix.data.subarray(start, start + count) };
    return { rows: count, cols: matrix.cols, data: matrix.data.subarray(start * matrix.cols, (start + count) * matrix.cols) };
  }

  // Text

  const NUMBER = "\\p{Nd}+(?:[.,]\\p{Nd}+)*";
  const LETTERS = "[\\p{L}\\p{Nl}\\p{No}]+";
  const WORDS = new RegExp(`${NUMBER}|${LETTERS}(?:-${LETTERS})*(?:'${LETTERS})*`, "gu");

  function editDistance(a, b) {
    let before = Array.from({ length: b.length + 1 }, (_, index) => index);
    for (let row = 1; row <= a.length; row++) {
      const now = [row];
      for (let column = 1; column <= b.length; column++)
        now.push(Math.min(before[column] + 1, now[column - 1] + 1, before[column - 1] + (a[row - 1] !== b[column - 1])));
      before = now;
    }
    return before[b.length];
  }

  function joinFrench(tokens) {
    return tokens.reduce((text, token) => text + (!text || /.'$/.test(text) ? "" : " ") + token, "");
  }

  return function open(bundle) {
    const { config, source_tokens: sourceTokens, target_tokens: targetTokens, special } = bundle;
    const { dim, num_heads: numHeads, num_layers: numLayers } = config;
    const headDim = dim / numHeads;
    const weights = readSafetensors(bundle.weights);
    const sourceIds = new Map(sourceTokens.map((token, id) => [token, id]));
    const firstWord = Math.max(...Object.values(special)) + 1;

    const parameter = (name) => weights.get(name);
    const both = (name) => [parameter(`${name}.weight`), parameter(`${name}.bias`)];
    const projections = new Map(); // of an attention module: query, key, value
    for (const name of weights.keys()) {
      if (!name.endsWith("in_proj.weight")) continue;
      const module = name.slice(0, -".in_proj.weight".length);
      projections.set(
        module,
        [0, 1, 2].map((part) => both(`${module}.in_proj`).map((matrix) => slice(matrix, part * dim, dim))),
      );
    }

    function tokenize(text) {
      const words = text.normalize("NFC").replace(/[\u2019\u02bc\u2032\uff07]/g, "'").toLowerCase().match(WORDS) ?? [];
      if (!words.length) throw new ReaderError("empty", "The sentence is empty. Write one, for example: the old king sleeps");
      if (words.length > config.max_len)
        throw new ReaderError("long", `The sentence has ${words.length} words; the longest known has ${config.max_len}. Shorten it.`);
      const unknown = words.find((word) => !(sourceIds.get(word) >= firstWord));
      if (unknown !== undefined)
        throw new ReaderError(
          "unknown",
          `“${unknown}” is out of vocabulary: the model has embeddings for ${sourceTokens.length - firstWord} English words only.`,
          unknown,
          suggest(unknown),
        );
      return { ids: [...words.map((word) => sourceIds.get(word)), special.eos_id], tokens: [...words, sourceTokens[special.eos_id]] };
    }

    function suggest(word) {
      const stem = word.replace(/n't$/, "");
      if (stem !== word && sourceIds.has(stem)) return [`${stem} not`];
      const near = sourceTokens
        .slice(firstWord)
        .map((known) => [editDistance(word, known), known])
        .filter(([distance, known]) => distance <= Math.max(1, Math.floor(Math.max(word.length, known.length) / 2)))
        .sort(([a], [b]) => a - b);
      return near.slice(0, 4).map(([, known]) => known);
    }

    function positionRow(position) {
      const data = new Float32Array(dim);
      for (let index = 0; index < dim; index += 2) {
        const angle = position * BASE ** (-index / dim);
        data[index] = Math.sin(angle);
        data[index + 1] = Math.cos(angle);
      }
      return data;
    }

    function newBlock(id, kind) {
      const tensors = {
        embedding: () => ({ tokens: empty(dim), positions: empty(dim), output: empty(dim) }),
        attention: () => ({
          x: empty(dim),
          normed: empty(dim),
          heads: Array.from({ length: numHeads }, () => ({
            ...Object.fromEntries(["query", "key", "value", "context"].map((name) => [name, empty(headDim)])),
            ...Object.fromEntries(["scores", "scaled", "masked", "weights"].map((name) => [name, empty(0)])),
          })),
          concat: empty(dim),
          projected: empty(dim),
          output: empty(dim),
        }),
        feed_forward: () => ({
          ...Object.fromEntries(["x", "normed", "projected", "output"].map((name) => [name, empty(dim)])),
          hidden: empty(config.hidden_dim),
          active: empty(config.hidden_dim),
        }),
        norm: () => ({ x: empty(dim), output: empty(dim) }),
        lm_head: () => ({ x: empty(dim), logits: empty(targetTokens.length), probs: empty(targetTokens.length) }),
      }[kind]();
      return { id, kind, tensors };
    }

    class Run {
      constructor(ids, { heads = new Set(), cut = [], positions = true, scaling = true } = {}) {
        this.switches = { heads, cut, positions, scaling };
        this.source = ids.map((id) => sourceTokens[id]);
        this.maxLen = 2 * (ids.length - 1) + 10; // far more than any reference has
        Object.assign(this, { ids: [], inputs: [], tokens: [], logProb: 0, done: false, next: special.bos_id });
        const order = [["encoder.embedding", "embedding"]];
        for (let layer = 0; layer < numLayers; layer++)
          order.push([`encoder.${layer}.self_attn`, "attention"], [`encoder.${layer}.feed_forward`, "feed_forward"]);
        order.push(["encoder.norm", "norm"], ["decoder.embedding", "embedding"]);
        for (let layer = 0; layer < numLayers; layer++)
          order.push(
            [`decoder.${layer}.self_attn`, "attention"],
            [`decoder.${layer}.cross_attn`, "attention"],
            [`decoder.${layer}.feed_forward`, "feed_forward"],
          );
        order.push(["decoder.norm", "norm"], ["lm_head", "lm_head"]);
        this.trace = new Map(order.map(([id, kind]) => [id, newBlock(id, kind)]));

        let x = this.embed("encoder", ids);
        for (let layer = 0; layer < numLayers; layer++) {
          x = this.attend(`encoder.${layer}.self_attn`, "norm1", x);
          x = this.feedForward(`encoder.${layer}.feed_forward`, "norm2", x);
        }
        const memory = this.norm("encoder.norm", x);
        for (let layer = 0; layer < numLayers; layer++) this.project(`decoder.${layer}.cross_attn`, memory);
      }

      get text() {
        return joinFrench(this.tokens.filter((_, index) => this.ids[index] !== special.eos_id));
      }

      get cache() {
        return Array.from({ length: numLayers }, (_, layer) => {
          const own = this.trace.get(`decoder.${layer}.self_attn`).tensors.heads;
          const memory = this.trace.get(`decoder.${layer}.cross_attn`).tensors.heads;
          return {
            key: own.map((head) => head.key),
            value: own.map((head) => head.value),
            memoryKey: memory.map((head) => head.key),
            memoryValue: memory.map((head) => head.value),
          };
        });
      }

      copy() {
        // A run that continues on its own: the parent in a beam search keeps its rows.
        const twin = Object.assign(Object.create(Run.prototype), this);
        const copied = (tensor) => (Array.isArray(tensor) ? tensor.map(each) : typeof tensor === "object" ? { ...tensor } : tensor);
        const each = (tensors) => Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [name, copied(tensor)]));
        for (const name of ["ids", "inputs", "tokens"]) twin[name] = [...this[name]];
        twin.trace = new Map([...this.trace].map(([id, block]) => [id, id.startsWith("encoder") ? block : { ...block, tensors: each(block.tensors) }]));
        return twin;
      }

      step() {
        const logits = this.advance();
        let best = 0;
        for (let id = 1; id < logits.length; id++) if (logits[id] > logits[best]) best = id;
        return this.take(best);
      }

      force(ids) {
        for (const id of ids) {
          this.advance();
          this.take(id);
        }
        return this;
      }

      advance() {
        // The decoder on its newest input; returns the logits of the next token.
        this.inputs.push(targetTokens[this.next]);
        let x = this.embed("decoder", [this.next]);
        for (let layer = 0; layer < numLayers; layer++) {
          x = this.attend(`decoder.${layer}.self_attn`, "norm1", x);
          x = this.attend(`decoder.${layer}.cross_attn`, "norm2", x);
          x = this.feedForward(`decoder.${layer}.feed_forward`, "norm3", x);
        }
        x = this.norm("decoder.norm", x);
        const logits = linear(x, parameter("lm_head.weight"), null);
        this.grow("lm_head", { x, logits, probs: softmaxRows(logits) });
        return logits.data;
      }

      take(id) {
        // The token that follows the newest input.
        const { probs } = this.trace.get("lm_head").tensors;
        const row = probs.data.slice(-probs.cols);
        this.ids.push(id);
        this.tokens.push(targetTokens[id]);
        this.logProb += Math.log(row[id]);
        this.done = id === special.eos_id || this.ids.length >= this.maxLen;
        this.next = id;
        return { id, token: targetTokens[id], probs: row, done: this.done };
      }

      grow(id, more) {
        const { tensors } = this.trace.get(id);
        for (const [name, matrix] of Object.entries(more)) append(tensors[name], matrix);
        return more.output;
      }

      embed(stack, ids) {
        const id = `${stack}.embedding`;
        const embedding = parameter(`${stack === "encoder" ? "source" : "target"}_embedding.token_embedding.weight`);
        const start = this.trace.get(id).tensors.output.rows;
        const tokens = { rows: ids.length, cols: dim, data: new Float32Array(ids.length * dim) };
        const positions = { ...tokens, data: new Float32Array(ids.length * dim) };
        const scale = Math.fround(Math.sqrt(dim));
        ids.forEach((token, row) => {
          for (let index = 0; index < dim; index++) tokens.data[row * dim + index] = embedding.data[token * dim + index] * scale;
          if (this.switches.positions) positions.data.set(positionRow(start + row), row * dim);
        });
        return this.grow(id, { tokens, positions, output: add(tokens, positions) });
      }

      norm(id, x) {
        return this.grow(id, { x, output: layerNorm(x, ...both(id)) });
      }

      project(id, x) {
        // Keys and values of each head.
        const { tensors } = this.trace.get(id);
        const [, key, value] = projections.get(moduleOf(id));
        const [keys, values] = [linear(x, ...key), linear(x, ...value)];
        if (id.endsWith("cross_attn")) tensors.memory = x;
        tensors.heads.forEach((head, number) => {
          append(head.key, columns(keys, number * headDim, headDim));
          append(head.value, columns(values, number * headDim, headDim));
        });
      }

      attend(id, norm, x) {
        const { tensors } = this.trace.get(id);
        const module = moduleOf(id);
        const [stack, layer, kind] = id.split(".");
        const normed = layerNorm(x, ...both(`${stack}.layers.${layer}.${norm}`));
        const queries = linear(normed, ...projections.get(module)[0]);
        if (kind === "self_attn") this.project(id, normed);
        const cut = this.switches.cut.filter((link) => kind === "cross_attn" && link.layer === Number(layer));
        const mayAttend = (query, key) =>
          (kind === "cross_attn" || stack === "encoder" || key <= query) && !cut.some((link) => link.query === query && link.key === key);
        const factor = this.switches.scaling ? 1 / Math.sqrt(headDim) : 1;
        const start = tensors.x.rows;
        const concat = { rows: x.rows, cols: dim, data: new Float32Array(x.rows * dim) };
        tensors.heads.forEach((head, number) => {
          head.off = this.switches.heads.has(`${id}.${number}`);
          append(head.query, columns(queries, number * headDim, headDim));
          const [rows, cols] = [head.query.rows, head.key.rows];
          head.scores = grid(head.scores, rows, cols, (row, column) => product(head.query, row, head.key, column));
          head.scaled = grid(head.scaled, rows, cols, (row, column) => head.scores.data[row * cols + column] * factor);
          head.masked = grid(head.masked, rows, cols, (row, column) => (mayAttend(row, column) ? head.scaled.data[row * cols + column] : -Infinity));
          const weights = softmaxRows(lastRows(head.masked, start));
          head.weights = grid(head.weights, rows, cols, (row, column) => (row < start ? 0 : weights.data[(row - start) * cols + column]));
          const context = matmul(weights, head.value);
          append(head.context, context);
          if (head.off) return;
          for (let row = 0; row < x.rows; row++)
            concat.data.set(context.data.subarray(row * headDim, (row + 1) * headDim), row * dim + number * headDim);
        });
        const projected = linear(concat, ...both(`${module}.out_proj`));
        return this.grow(id, { x, normed, concat, projected, output: add(x, projected) });
      }

      feedForward(id, norm, x) {
        const [stack, layer] = id.split(".");
        const module = moduleOf(id);
        const normed = layerNorm(x, ...both(`${stack}.layers.${layer}.${norm}`));
        const hidden = linear(normed, ...both(`${module}.linear1`));
        const active = { ...hidden, data: hidden.data.map((value) => Math.max(value, 0)) };
        const projected = linear(active, ...both(`${module}.linear2`));
        return this.grow(id, { x, normed, hidden, active, projected, output: add(x, projected) });
      }
    }

    function moduleOf(id) {
      // "decoder.0.self_attn" is decoder.layers.0.self_attn among the parameters.
      const [stack, layer, name] = id.split(".");
      return `${stack}.layers.${layer}.${name}`;
    }

    function translate(ids, switches) {
      const run = new Run(ids, switches);
      while (!run.done) run.step();
      return run;
    }

    function beam(ids, width, switches) {
      let kept = [{ run: new Run(ids, switches), total: 0, ended: false }];
      const { maxLen } = kept[0].run;
      const tree = [];
      while (tree.length < maxLen && kept.some(({ ended }) => !ended)) {
        const nodes = kept.flatMap((hypothesis, parent) => {
          // Of each hypothesis only the best `width` continuations can be kept. An ended one has one continuation, itself.
          const from = tree.length ? parent : -1;
          if (hypothesis.ended) return [{ parent: from, id: null, token: null, logProb: hypothesis.total, ended: true }];
          const logProbs = logSoftmax(hypothesis.run.advance());
          const best = Array.from(logProbs.keys()).sort((a, b) => logProbs[b] - logProbs[a]);
          return best.slice(0, width).map((id) => ({
            parent: from,
            id,
            token: targetTokens[id],
            logProb: hypothesis.total + logProbs[id],
            ended: id === special.eos_id,
          }));
        });
        nodes.sort((a, b) => b.logProb - a.logProb);
        nodes.forEach((node, index) => (node.kept = index < width));
        tree.push(nodes);
        kept = nodes.slice(0, width).map((node) => {
          const parent = kept[Math.max(node.parent, 0)];
          if (node.id === null) return parent;
          const run = parent.run.copy();
          run.take(node.id);
          return { run, total: node.logProb, ended: node.ended };
        });
      }
      const hypotheses = kept.map(({ run, total, ended }) => ({ ids: run.ids, tokens: run.tokens, text: run.text, logProb: total, ended, run }));
      return { ...hypotheses[0], hypotheses, tree };
    }

    function logSoftmax(logits) {
      let largest = -Infinity;
      for (const logit of logits) largest = Math.max(largest, logit);
      let sum = 0;
      for (const logit of logits) sum += Math.exp(logit - largest);
      const logSum = largest + Math.log(sum);
      return Array.from(logits, (logit) => logit - logSum);
    }

    return { config, sourceTokens, targetTokens, special, tokenize, translate, beam, start: (ids, switches) => new Run(ids, switches) };
  };
})();
