"""The Transformer encoder on the stories of lesson 02, next to the memory network: error against the amount of training data.

Both models see the same questions, sentence embeddings with position encoding, temporal embeddings with random noise, and
the same batches. A step is one parameter update from a batch of 32 questions; both take the same number of steps. s seeds.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.data.babi import parse, words
from utils.data.stories import story_text
from utils.data.story_tensors import Stories, StoryVocabulary, as_tensors
from utils.models.language_models import parameter_count
from utils.models.layers import EncoderLayer
from utils.models.memory import MemoryNetwork
from utils.training import memory
from utils.training.cache import cached
from utils.training.memory import BATCH_SIZE, NOISE, DistinctSentences, distinct_sentences
from utils.training.seeds import call_models, cross_entropies, seed_list, stack_models
from utils.training.trainer import train, warmup_stable_decay

TASKS, SIZES, NUM_TEST = (1, 2, 16), (1000, 3000, 10_000), 1000
STEPS = 3720  # the budget of lesson 02: 120 epochs of 1,000 questions
DIM, NUM_LAYERS, NUM_HEADS = 64, 3, 4
LEARNING_RATE, POOL = 1e-3, 8
MODELS = ("memory network", "encoder", "encoder, shared layers")


def story_data(task: int, num_questions: int) -> tuple[StoryVocabulary, Stories, Stories]:
    """Vocabulary, training and test questions. The test set is the same for every size of SIZES: stories in none of them."""
    largest = max(num_questions, *SIZES)
    questions = parse(story_text(task, largest, memory.TRAINING_SEED))[:largest]
    seen = {item.story for item in questions}
    test = [item for item in parse(story_text(task, 2 * NUM_TEST, memory.TEST_SEED)) if item.story not in seen]
    vocabulary = StoryVocabulary.build(questions + test)
    max_len = max(len(words(text)) for item in questions + test for text in (*item.story, item.question))
    parts = questions[:num_questions], test[:NUM_TEST]  # an age beyond the training stories counts as the oldest there
    return vocabulary, *(as_tensors(part, vocabulary, max_len=max_len) for part in parts)


class StoryEncoder(nn.Module):
    """Transformer encoder with one token per sentence, and the question as the last token, whose output predicts the answer.

    Pre-norm. shared: every layer has the same parameters, as in the Universal Transformer (arXiv:1807.03819).
    """

    def __init__(self, vocab_size: int, memory_size: int, shared: bool):
        super().__init__()
        self.embedding = nn.Parameter(0.1 * torch.randn(vocab_size, DIM))
        self.temporal_embedding = nn.Parameter(0.1 * torch.randn(memory_size + 1, DIM))  # the last: the question
        self.register_buffer("component_weights", (torch.arange(1, DIM + 1) - (DIM + 1) / 2) / DIM)
        layers = [EncoderLayer(DIM, NUM_HEADS, 2 * DIM, norm_first=True) for _ in range(1 if shared else NUM_LAYERS)]
        self.layers = nn.ModuleList(layers * NUM_LAYERS if shared else layers)
        self.norm, self.classifier = nn.LayerNorm(DIM), nn.Linear(DIM, vocab_size)

    def forward(
        self, counts: Tensor, story: Tensor, age: Tensor, mask: Tensor, question: Tensor
    ) -> tuple[Tensor, Tensor]:
        """counts (u, 2 * vocab_size) of the distinct sentences; story (b, n) and question (b, 1): their indices;
        age and mask (b, n). Returns logits (b, vocab_size) and the attention weights (b, layers, heads, n + 1, n + 1)."""
        all_weights = []
        sentences = counts @ torch.cat([self.embedding, self.embedding * self.component_weights])
        last = len(self.temporal_embedding) - 1
        time = torch.cat([age.clamp_max(last - 1), torch.full_like(question, last)], 1)
        x = sentences[torch.cat([story, question], 1)] + self.temporal_embedding[time]
        mask = F.pad(mask, (0, 1), value=True).unsqueeze(1)
        for layer in self.layers:
            x, weights = layer(x, mask, need_weights=True)
            all_weights.append(weights)
        return self.classifier(self.norm(x[:, -1])), torch.stack(all_weights, 1)


# Training


def batches(stories: Stories, seeds: Sequence[int], steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    """For each step the questions (s, BATCH_SIZE) of every seed, by index, and the ages (s, BATCH_SIZE, n) with random noise.

    Stories of similar length share a batch, so that little of it is padding: of every POOL batches the questions are
    sorted by length, and the batches shuffled, alike for all seeds.
    """
    generators = [torch.Generator().manual_seed(10_000 + seed) for seed in seeds]
    epochs, length = math.ceil((steps + POOL) * BATCH_SIZE / len(stories)), stories.mask.sum(1)
    orders = [torch.cat([torch.randperm(len(stories), generator=own) for _ in range(epochs)]) for own in generators]
    shuffle = torch.Generator().manual_seed(0)
    for start in range(0, steps, POOL):
        pool = torch.stack([order[start * BATCH_SIZE : (start + POOL) * BATCH_SIZE] for order in orders])
        pool = pool.gather(1, length[pool].argsort(dim=1, stable=True)).unflatten(1, (POOL, BATCH_SIZE))
        for number in torch.randperm(POOL, generator=shuffle)[: steps - start]:
            index = pool[:, number]
            pairs = zip(index, generators, strict=True)
            ages = [memory.random_noise(stories.age[own], stories.mask[own], each) for own, each in pairs]
            yield index, torch.stack(ages)


def train_encoder(
    vocabulary: StoryVocabulary, training: Stories, seeds: Sequence[int], steps: int, shared: bool
) -> tuple[Callable[[Stories], Tensor], int, Tensor]:
    """Adam on all seeds at once. Returns a function from stories to predicted answers (s, b), the number of parameters
    of one model, and the losses (steps, s)."""
    model, parameters = stack_models(lambda: StoryEncoder(len(vocabulary), memory_size(training), shared), seeds)
    sentences, stream = distinct(training, len(vocabulary)), batches(training, seeds, steps)

    def loss_of_step(step: int) -> Tensor:
        index, age = next(stream)
        logits = call_models(model, parameters, *encoder_inputs(training, sentences, index, age))
        return cross_entropies(logits, training.answer[index])

    @torch.no_grad()
    def predict(stories: Stories) -> Tensor:
        sentences, predictions = distinct(stories, len(vocabulary)), []
        for part in torch.arange(len(stories)).split(100):
            index = part.expand(len(seeds), -1)
            inputs = encoder_inputs(stories, sentences, index, stories.age[index])
            predictions.append(call_models(model, parameters, *inputs).argmax(-1))
        return torch.cat(predictions, 1)

    options = {"learning_rate": LEARNING_RATE, "schedule": warmup_stable_decay(steps, 100), "betas": (0.9, 0.98)}
    losses = train(parameters.values(), loss_of_step, steps, **options)
    return predict, parameter_count(model), losses


def encoder_inputs(stories: Stories, sentences: DistinctSentences, index: Tensor, age: Tensor) -> tuple[Tensor, ...]:
    """The arguments of `StoryEncoder` for the questions index (s, b), cut to the longest story among them."""
    mask = stories.mask[index]
    length = int(mask.sum(-1).max())
    counts = sentences.counts.expand(len(index), *sentences.counts.shape)
    story, question = sentences.story[index][..., :length], sentences.question[index].unsqueeze(-1)
    return counts, story, age[..., :length], mask[..., :length], question


def train_memory_network(
    vocabulary: StoryVocabulary, training: Stories, seeds: Sequence[int], steps: int
) -> tuple[Callable[[Stories], Tensor], int, Tensor]:
    """The memory network with the recipe of lesson 02, its schedule stretched over `steps`. Returns as `train_encoder`."""
    model = MemoryNetwork(len(vocabulary), memory_size=memory_size(training), seeds=seeds)
    sentences, losses = distinct_sentences(training, model), []
    parameters = list(model.parameters())
    phases = memory.schedule(linear_start=True, epochs=memory.EPOCHS)
    for step, (index, age) in enumerate(batches(training, seeds, steps)):
        linear, learning_rate = phases[step * len(phases) // steps]
        memories = memory.memory_index(sentences.story[index], age, model, len(sentences.counts))
        mask = memory.score_mask(training.mask[index], linear)
        logits, _ = memory.logits_and_weights(
            model, sentences.counts, memories, sentences.question[index], mask, linear
        )
        loss = F.cross_entropy(logits.flatten(0, 1), training.answer[index].flatten(), reduction="none")
        loss = loss.view(len(seeds), -1).sum(1)
        memory.sgd_step(parameters, torch.autograd.grad(loss.sum(), parameters), learning_rate)
        losses.append(loss.detach() / BATCH_SIZE)
    count = sum(parameter[0].numel() for parameter in parameters)
    return lambda stories: memory.predict(model, stories)[0], count, torch.stack(losses)


def memory_size(stories: Stories) -> int:
    """The number of temporal embeddings: one for each memory, and some for the random noise."""
    return math.ceil((1 + NOISE) * stories.story.size(1))


def distinct(stories: Stories, vocab_size: int) -> DistinctSentences:
    """The distinct sentences of the stories, counted with position encoding."""
    return distinct_sentences(stories, MemoryNetwork(vocab_size))


@cached
def train_on_stories(
    model: str, task: int, num_questions: int = 1000, seeds: int | Sequence[int] = 3, steps: int = STEPS
) -> dict:
    """Train a model of MODELS for each of s seeds. Returns error (s,) on NUM_TEST new stories, training_error (s,) on up to
    as many training questions, the number of parameters of one model, and loss (steps, s)."""
    seeds = seed_list(seeds)
    vocabulary, training, test = story_data(task, num_questions)
    if model == "memory network":
        predict, count, loss = train_memory_network(vocabulary, training, seeds, steps)
    else:
        predict, count, loss = train_encoder(vocabulary, training, seeds, steps, model == "encoder, shared layers")
    seen = first(training, NUM_TEST)
    return {
        "error": (predict(test) != test.answer).float().mean(1),
        "training_error": (predict(seen) != seen.answer).float().mean(1),
        "parameters": count,
        "loss": loss,
    }


def first(stories: Stories, count: int) -> Stories:
    tensors = (stories.story, stories.question, stories.answer, stories.mask, stories.age, stories.fact)
    return Stories(*(tensor[:count] for tensor in tensors), stories.cut)
