"""The translator with few pairs: unpaired sentences are unpaired, spans come back, and fine-tuning starts where pretraining ended."""

from itertools import islice

import pytest
import torch

from utils.data.bpe import SENTINEL_IDS
from utils.data.tokens import BOS_ID, EOS_ID, PAD_ID
from utils.training.few_pairs import pretrain_translator, span_batches, texts, train_on_pairs
from utils.training.pretraining import is_sentinel

NUM_UNPAIRED = 200
SMALL = {"num_unpaired": NUM_UNPAIRED, "num_steps": 3}


@pytest.fixture(scope="module")
def text():
    return texts(num_unpaired=NUM_UNPAIRED)


def test_no_unpaired_sentence_has_its_translation_in_the_text_and_none_is_held_out(text):
    held_out = (*text.pairs, *text.validation, *text.test)
    assert not set(text.english) & {pair.english for pair in held_out}
    assert not set(text.french) & {pair.french for pair in held_out}
    both = texts(num_unpaired=2 * NUM_UNPAIRED)  # the sentences that were French ones are English ones there
    assert both.english[:NUM_UNPAIRED] == text.english and not set(text.french) & set(both.french)


def test_one_vocabulary_covers_both_languages_and_the_sentinel_tokens(text):
    for sentence in (*text.english, *text.french, *(side for pair in text.test for side in pair[:2])):
        assert not text.vocabulary.out_of_vocabulary(sentence)
    sentinels = [f"[SENTINEL{index}]" for index in range(len(SENTINEL_IDS))]
    assert text.vocabulary.encode(sentinels) == list(SENTINEL_IDS)


def test_source_and_target_of_a_corrupted_sentence_give_the_sentence_back(text):
    sentences = {tuple(text.vocabulary.encode(sentence)) for sentence in (*text.english, *text.french)}
    for batch in islice(span_batches([*text.english, *text.french], text.vocabulary, 256, seed=0), 5):
        assert (batch.target_in[:, 0] == BOS_ID).all()
        assert torch.equal(batch.target_in[:, 1:][batch.target_mask[:, 1:]], batch.target_out[~is_last(batch)])
        for source, target in zip(batch.source.tolist(), batch.target_out.tolist(), strict=True):
            spans, current = {}, None
            for token in target[: target.index(EOS_ID)]:
                if is_sentinel(torch.tensor(token)):
                    spans[current := token] = []
                else:
                    spans[current].append(token)
            assert spans.popitem()[1] == []  # the final sentinel
            restored = [
                restored_id for token in source[: source.index(EOS_ID)] for restored_id in spans.get(token, [token])
            ]
            assert tuple(restored) in sentences and PAD_ID not in restored


def is_last(batch):
    """Where the target is EOS or padding."""
    return ~batch.target_mask | (batch.target_out == EOS_ID)


def test_fine_tuning_starts_from_the_pretrained_parameters():
    scratch = train_on_pairs.__wrapped__(50, 1, pretraining_steps=0, **SMALL)
    pretrained = train_on_pairs.__wrapped__(50, 1, pretraining_steps=40, **SMALL)
    assert pretrained["parameters"] == scratch["parameters"] and pretrained["covered"] == scratch["covered"] < 1
    assert pretrained["loss"][0] < scratch["loss"][0] - 0.3  # frequent tokens are known already


def test_pretraining_lowers_the_loss():
    losses = pretrain_translator.__wrapped__(0, num_unpaired=NUM_UNPAIRED, num_steps=40)["loss"]
    assert losses[-5:].mean() < losses[:5].mean() - 1
