"""English nouns and verbs with forms that a stemmer does not join: mouse and mice, write and wrote."""

import re
from collections.abc import Iterator
from typing import Final

from pipeline.keyword.terms import stem

# One word in its forms. Left out is a form that is a common word of its own: saw, left, rose, ground.
_WORDS: Final = """
child children, ox oxen, foot feet, tooth teeth, goose geese, mouse mice, louse lice, man men, woman women, person
people, penny pence, knife knives, wife wives, half halves, shelf shelves, wolf wolves, calf calves, loaf loaves,
thief thieves, scarf scarves, hoof hooves, elf elves, sheaf sheaves, wharf wharves, dwarf dwarves, leaf leaves, life
lives, bookshelf bookshelves, housewife housewives, midwife midwives, index indices, appendix appendices, matrix
matrices, vertex vertices, vortex vortices, codex codices, cortex cortices, helix helices, crisis crises, thesis
theses, hypothesis hypotheses, parenthesis parentheses, synthesis syntheses, analysis analyses, diagnosis diagnoses,
prognosis prognoses, oasis oases, metastasis metastases, ellipsis ellipses, basis bases, criterion criteria,
phenomenon phenomena, bacterium bacteria, curriculum curricula, stratum strata, memorandum memoranda, spectrum
spectra, erratum errata, symposium symposia, addendum addenda, ovum ova, mitochondrion mitochondria, stimulus
stimuli, nucleus nuclei, fungus fungi, cactus cacti, alumnus alumni, radius radii, locus loci, bacillus bacilli,
focus foci, genus genera, corpus corpora, syllabus syllabi, larva larvae, formula formulae, antenna antennae,
vertebra vertebrae, alga algae, nebula nebulae, stigma stigmata, schema schemata, plateau plateaux, bureau bureaux,
tableau tableaux, chateau chateaux, write wrote written, drive drove driven, ride rode ridden, give gave given,
forgive forgave forgiven, take took taken, mistake mistook mistaken, undertake undertook undertaken, shake shook
shaken, make made, buy bought, bring brought, teach taught, catch caught, fight fought, seek sought, think thought,
build built, rebuild rebuilt, send sent, spend spent, lend lent, bend bent, keep kept, sleep slept, sweep swept,
weep wept, creep crept, deal dealt, mean meant, hear heard, hold held, withhold withheld, tell told, sell sold, pay
paid, say said, lose lost, win won, begin began begun, drink drank, sing sang sung, swim swam swum, ring rang rung,
sink sank sunk, run ran, become became, overcome overcame, go went gone, know knew known, grow grew grown, throw
threw thrown, fly flew flown, draw drew drawn, withdraw withdrew withdrawn, blow blew blown, show shown, choose
chose chosen, break broke broken, freeze froze frozen, steal stole stolen, speak spoken, wake woke woken, wear wore
worn, tear tore torn, swear swore sworn, eat ate eaten, forget forgot forgotten, hide hid hidden, rise risen, arise
arose arisen, fall fell fallen, stand stood, understand understood, forbid forbade forbidden, strike struck
stricken, stick stuck, swing swung, hang hung, bleed bled, feed fed, breed bred, flee fled, slide slid, spin spun,
shine shone, burn burnt, learn learnt, spell spelt, leap leapt, spill spilt, kneel knelt, bite bitten, beat beaten,
dig dug, shoot shot, meet met, lead led, mow mown, sew sewn, sow sown, see seen
"""
_FORMS: Final[dict[str, tuple[str, ...]]] = {
    own: tuple(dict.fromkeys(other for other in stems if other != own))
    for group in _WORDS.replace("\n", " ").split(",")
    for stems in [list(map(stem, group.split()))]
    for own in stems
}
_COMPOUND: Final = re.compile("(?P<before>[a-z]{3,16})(?P<last>man|men|child|children)")  # policeman, grandchild


def irregular_forms(term: str) -> Iterator[str]:
    """Yield the terms of the other forms of the word of a term, if a stemmer does not join them."""
    yield from _FORMS.get(term, ())
    if compound := _COMPOUND.fullmatch(term):
        yield from (compound["before"] + other for other in _FORMS[stem(compound["last"])])
