"""Questions made up of stored texts."""

from __future__ import annotations

from pipeline.semantic.question_text_store import short_questions

FOXES = "Foxes hunt hares at night, and red foxes hunt in the woods of the north."
SALT = "高血压患者应当少吃盐，并且定期测量血压。"


class DescribeShortQuestions:
    def it_takes_a_few_keywords_of_each_text_in_their_order(self):
        english, chinese = short_questions([FOXES, SALT], seed=1)
        words = english.split()
        assert 2 <= len(words) <= 5
        assert [FOXES.index(word) for word in words] == sorted(FOXES.index(word) for word in words)
        assert not {"the", "of", "and", "at", "in"} & set(words)
        assert " " not in chinese
        assert 2 <= len(chinese) < len(SALT)

    def it_makes_the_same_of_the_same_and_nothing_of_a_text_without_words(self):
        assert short_questions([FOXES, "… — …"], seed=1) == short_questions([FOXES], seed=1)
