"""Which tokens chunks hold, told from memory: the same as their rows tell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from pipeline.core.feedback import similarities, terms_of
from pipeline.core.listing import Listing, listed
from pipeline.core.postings import Postings
from pipeline.records import ChunkId, FieldTerms
from tests.unit.test_postings import chunks, packed, postings


def held(made: Postings) -> tuple[Postings, Listing]:
    return made, Listing.of(made)


class DescribeListing:
    @given(chunks(), some.data())
    def it_tells_the_tokens_of_each_chunk_in_order(self, given_chunks, data):
        ids, documents, _ = given_chunks
        asked = data.draw(some.permutations(ids))
        found = listed([held(postings(*given_chunks))], asked)
        assert found is not None
        spelled = {chunk_id: terms_of(row) for chunk_id, row in zip(ids, packed(documents), strict=True)}
        numbers = {
            int(token): int(number) for each in ids for token, number in zip(spelled[each], found[each], strict=True)
        }
        assert {each: found[each].tolist() for each in ids} == {
            each: [numbers[int(token)] for token in spelled[each]] for each in ids
        }
        assert len(set(numbers.values())) == len(numbers)

    @given(chunks())
    def it_makes_chunks_as_like_each_other_as_their_rows_do(self, given_chunks):
        ids, documents, _ = given_chunks
        if not ids:
            return
        found = listed([held(postings(*given_chunks))], ids) or {}
        told = similarities([found[each] for each in ids])
        assert told == pytest.approx(similarities(list(map(terms_of, packed(documents)))), abs=1e-6)

    def it_tells_the_tokens_of_two_namespaces_apart(self):
        first = held(postings([ChunkId("x")], [["a", "b"]], [FieldTerms()]))
        second = held(postings([ChunkId("y")], [["c", "d"]], [FieldTerms()]))
        found = listed([first, second], [ChunkId("y"), ChunkId("x")])
        assert found is not None
        assert len({*found[ChunkId("x")].tolist(), *found[ChunkId("y")].tolist()}) == 4

    def it_says_nothing_where_a_chunk_is_not_there(self):
        copy = held(postings([ChunkId("x")], [["a"]], [FieldTerms()]))
        assert listed([copy], [ChunkId("x"), ChunkId("y")]) is None
        assert listed([copy], [ChunkId("y")]) is None

    def it_takes_two_bytes_a_token_while_they_are_few(self):
        made = postings([ChunkId("x"), ChunkId("y")], [["a", "b", "a"], []], [FieldTerms(), FieldTerms()])
        listing = Listing.of(made)
        assert listing.numbers.dtype == np.uint16
        assert listing.byte_count == 2 * 3 + 8 * 3
