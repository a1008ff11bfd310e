"""Texts and queries in languages with endings, and the stems that their inflected words share."""

import pytest

from pipeline.answer.highlights import spans
from pipeline.keyword.dictionary import Lexicon, read
from pipeline.keyword.inflections import languages_of, query_stems, stems
from pipeline.keyword.terms import analyze, tokenizer_of
from tests.support.corpora.small_collection import SCOPE, index, ranked

GERMAN = (
    "Die Mieter haben das Recht auf Kündigung, wenn die Wohnungen nicht bewohnbar sind und der Vermieter nichts tut."
)
FRENCH = "Les locataires ont droit à l'hôtel, car les systèmes de chauffage ne sont pas réparés dans la maison."
KNOWN = {
    "dutch": "De huurders hebben recht op een andere woning, want de kamers zijn niet warm en het dak is niet dicht.",
    "spanish": "Los inquilinos tienen derecho a otra casa, porque la de la ciudad no está en buen estado y es muy fría.",
    "italian": "Gli inquilini hanno il diritto di avere una casa che non sia fredda, come è scritto nella legge.",
    "portuguese": "Os inquilinos têm direito a uma casa que não seja fria, como está na lei e no contrato da cidade.",
    "turkish": "Kiracılar bu evlerde daha iyi koşullar için ve soğuk odalar nedeniyle sözleşmeyi bitirme hakkına sahip.",
    "russian": "Арендаторы имеют право расторгнуть договор, если квартиры холодные.",
    "ukrainian": "Орендарі мають право розірвати договір, якщо квартири холодні і їх ніхто не лагодить.",
    "urdu": "کرایہ داروں کو معاہدہ ختم کرنے کا حق ہے اگر کمرے ٹھنڈے ہوں۔",
    "bengali": "ঘর ঠান্ডা হলে ভাড়াটেরা চুক্তি শেষ করতে পারেন।",
    "greek": "Οι ενοικιαστές έχουν δικαίωμα να λύσουν τη σύμβαση, αν τα διαμερίσματα είναι κρύα.",
    "hindi": "किरायेदारों को अनुबंध समाप्त करने का अधिकार है, यदि कमरे ठंडे हैं।",
    "polish": "Najemcy mają prawo rozwiązać umowę, jeśli mieszkania są zimne i nie nadają się do zamieszkania.",
    "czech": "Nájemci mají právo ukončit smlouvu, pokud jsou byty studené a nikdo je neopraví.",
    "hungarian": "A bérlőknek joguk van felmondani a szerződést, mert a lakások hidegek és nem lakhatók.",
    "finnish": "Vuokralaisilla on oikeus purkaa sopimus, jos asunnot ovat kylmiä eivätkä ne kelpaa asumiseen.",
    "swedish": "Hyresgästerna har rätt att säga upp avtalet om lägenheterna är kalla och inte kan bebos.",
    "romanian": "Chiriașii au dreptul să rezilieze contractul dacă locuințele sunt reci și nu pot fi locuite.",
    "catalan": "Els llogaters poden rescindir el contracte si els habitatges són freds i no s'hi pot viure.",
    "indonesian": "Penyewa berhak untuk mengakhiri kontrak jika rumah itu dingin dan tidak dapat dihuni.",
    "lithuanian": "Nuomininkai turi teisę nutraukti sutartį, jei butai yra šalti ir netinkami gyventi.",
    "serbian": "Закупци имају право да раскину уговор ако су станови хладни и нико их не поправља.",
    "hebrew": "לשוכרים יש זכות לסיים את החוזה אם הדירות קרות.",
    "persian": "مستأجران حق دارند قرارداد را فسخ کنند اگر خانه‌ها سرد باشند.",
    "nepali": "भाडावालहरूले सम्झौता अन्त्य गर्न सक्छन्, यदि कोठा चिसो छ।",
    "tamil": "வீடுகள் குளிராக இருந்தால் வாடகைதாரர்கள் ஒப்பந்தத்தை முடிக்கலாம்.",
    "arabic": "للمستأجرين الحق في إنهاء العقد إذا كانت المساكن باردة.",
}
SHORT = [
    (("german",), "Die Autowaschanlage steht am Hafen."),
    (("turkish",), "İSTANBUL'daki müze bu yıl kapalı."),
    (("czech",), "Knihovna půjčuje mapy."),
    (("romanian",), "Cartea se împrumută de la bibliotecă."),
    (("turkish",), "Ankara'nın ışığı"),
    (("danish", "norwegian"), "Prisen på båden er to hundrede."),
]
OTHERS = {
    "English": "The tenants have the right to end their contract, for the flats are not fit to live in, and it is cold.",
    "Chinese": "承租人有权要求出租人维修房屋。",
    "a table": "Kündigung | 3 Monate\nKaution | 2 Mieten\nHeizung | 20 Grad",
}


class DescribeTheLanguageOfAText:
    def it_is_german_or_french(self):
        assert (languages_of(GERMAN), languages_of(FRENCH)) == (("german",), ("french",))
        assert languages_of(GERMAN.upper()) == ("german",)

    @pytest.mark.parametrize(("language", "text"), KNOWN.items())
    def it_is_told_by_function_words_or_by_the_script(self, language, text):
        assert languages_of(text) == (language,)

    @pytest.mark.parametrize(("languages", "text"), SHORT)
    def it_is_told_by_one_such_word_in_a_short_text(self, languages, text):
        assert languages_of(text) == languages

    @pytest.mark.parametrize("text", OTHERS.values(), ids=list(OTHERS))
    def it_is_unknown_for_others(self, text):
        assert languages_of(text) == ()

    def it_is_that_of_most_words(self):
        assert languages_of(f"{OTHERS['English']} {GERMAN} {GERMAN}") == ("german",)
        assert languages_of(f"{OTHERS['Chinese']} {FRENCH}") == ("french",)


class DescribeStems:
    def it_leaves_out_function_words_and_what_is_a_term_already(self):
        assert stems("Die Straßen und die Häuser, nicht das Haus", ["german"]) == ["strass", "haus"]

    def it_leaves_out_a_line_drawn_with_tatweel(self):
        assert stems("المساكن ـــــ باردة", ["arabic"]) == stems("المساكن باردة", ["arabic"])

    def it_tells_elisions_apart(self):
        assert stems("d'économies l'hôtel", ["french"]) == ["econom"]
        assert "hotel" in analyze("l'hôtel")

    def it_reads_letters_with_their_accents_as_signs_of_their_own(self):
        assert stems("Ha\u0308user", ["german"]) == ["haus"]


class DescribeAQuery:
    @pytest.mark.parametrize(
        ("query", "found", "is_sure"),
        [
            ("Wie finde ich Häuser?", {"find": ["find"], "hauser": ["haus"]}, True),
            ("économies d'énergie", {"economi": ["econom"], "denergi": ["energ"]}, True),
            ("Versicherungen", {"versicherungen": ["versicher"]}, False),
            ("which houses are on the map", {}, True),
            ("离心泵", {}, False),
        ],
    )
    def it_is_looked_for_by_stems_too(self, query, found, is_sure):
        assert query_stems(query)[1] is is_sure
        assert {term: some for term, some in query_stems(query)[0].items() if some != [term]} == {
            term: some for term, some in found.items() if some != [term]
        }

    def it_counts_stems_half_where_its_language_is_not_known(self):
        sure, unsure = (read(query, Lexicon()).units for query in ("welche Versicherungen", "Versicherungen"))
        assert [(unit.ways, unit.near) for unit in sure][-1] == ((("versicherungen",), ("versicher",)), 0)
        assert [(unit.ways, unit.near) for unit in unsure] == [((("versicherungen",), ("versicher",)), 1)]


def it_indexes_a_title_in_the_language_of_the_text():
    found = index(GERMAN, "Häuser")
    assert found.terms[: found.fields.title] == tuple(tokenizer_of(SCOPE).tokens(["hauser", "haus"]))


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Wohnung kündigen", GERMAN),
        ("Kündigungen", GERMAN),
        ("Rechte des Mieters", GERMAN),
        ("hôtels", FRENCH),
        ("locataire", FRENCH),
        ("le système n'est pas réparé", FRENCH),
        ("wat is het recht van een huurder", KNOWN["dutch"]),
        ("qué derecho tiene el inquilino", KNOWN["spanish"]),
        ("quali diritti ha l'inquilino", KNOWN["italian"]),
        ("direitos que tem o inquilino", KNOWN["portuguese"]),
        ("soğuk oda", KNOWN["turkish"]),
        ("права арендатора", KNOWN["russian"]),
        ("δικαιώματα ενοικιαστή", KNOWN["greek"]),
        ("किरायेदार", KNOWN["hindi"]),
        ("عقد", KNOWN["arabic"]),
        ("umowa najemcy", KNOWN["polish"]),
        ("smlouva o bytu", KNOWN["czech"]),
        ("lakás bérlője", KNOWN["hungarian"]),
        ("asunnon sopimus", KNOWN["finnish"]),
        ("hyresgästens lägenhet", KNOWN["swedish"]),
        ("contractele chiriașului", KNOWN["romanian"]),
        ("contractes dels habitatges", KNOWN["catalan"]),
        ("sutartis dėl buto", KNOWN["lithuanian"]),
        ("ugovor o stanu", KNOWN["serbian"]),
        ("החוזים של שוכר", KNOWN["hebrew"]),
        ("خانه مستأجر", KNOWN["persian"]),
        ("कोठाको सम्झौता", KNOWN["nepali"]),
        ("வீட்டின் ஒப்பந்தம்", KNOWN["tamil"]),
    ],
)
def it_finds_inflected_words(query, text):
    assert ranked(query, [*OTHERS.values(), *KNOWN.values(), GERMAN, FRENCH])[0] == text


def it_marks_inflected_words_in_texts_of_their_language_alone():
    def marked(text: str) -> list[str]:
        asked = read("Mieter Häuser", Lexicon())
        return [text[span.start : span.end] for span in spans(text, asked.terms)]

    assert marked(f"{GERMAN} Ein Haus mit Mietern.") == ["Mieter", "Haus", "Mietern"]
    assert marked(f"{OTHERS['English']} Mietern.") == []


def it_forgets_ways_of_saying_something_that_no_chunk_holds():
    (unit,) = read("Versicherungen", Lexicon()).held({"versicherungen": 1}).units
    assert (unit.ways, unit.near) == ((("versicherungen",),), 0)
    (unit,) = read("Versicherungen", Lexicon()).held({"versicher": 1}).units
    assert (unit.ways, unit.near) == ((("versicherungen",), ("versicher",)), 1)
