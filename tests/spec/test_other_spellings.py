"""One thing written in several ways: by words alone, a query finds the passage however the two write it."""

import pytest

from tests.support.corpora.small_collection import ranked

NOISE = [
    f"The handbook explains item {number} in chapter {number} of the part on {2000 + number}." for number in range(30)
]


def first(query: str, right: str, wrong: tuple[str, ...] = ()) -> str | None:
    """Return the first passage for a query among passages on other things."""
    return next(iter(ranked(query, [*wrong, *NOISE, right])), None)


def both_ways(rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Return rows of two spellings and a near miss, also with the spellings exchanged."""
    return [*rows, *((right, query, wrong) for query, right, wrong in rows)]


class DescribeNumbers:
    @pytest.mark.parametrize(
        ("query", "written", "other"),
        both_ways(
            [
                ("13644021897", "136-4402-1897", "136-4402-1898"),
                ("13644021897", "136 4402 1897", "136 4402 7777"),
                ("13644021897", "+86 136 4402 1897", "+86 136 4402 2897"),
                ("13644021897", "0086-136-4402-1897", "0086-136-4402-1898"),
                ("+8613644021897", "136 4402 1897", "136 4402 1891"),
                ("0301234567", "+49 (0)30 1234567", "+49 (0)30 1234568"),
                ("(030) 123 4567", "+49 30 1234567", "+49 40 1234567"),
                ("0612345678", "06.12.34.56.78", "06.12.34.56.79"),
                ("+1 (555) 010-4477", "5550104477", "5550104478"),
                ("9783161484100", "978-3-16-148410-0", "978-3-16-148411-7"),
                ("080442957x", "0-8044-2957-X", "0-8044-2958-8"),
                ("DE89370400440532013000", "DE89 3704 0044 0532 0130 00", "DE89 3704 0044 0532 0131 00"),
                ("GB29NWBK60161331926819", "GB29 NWBK 6016 1331 9268 19", "GB29 NWBK 6016 1331 9268 18"),
                ("6222021234567890123", "6222 0212 3456 7890 123", "6222 0212 3456 7890 124"),
                ("1234567", "1 234 567", "1 234 568"),
                ("京A12345", "京A·12345", "京B·12345"),
                ("京A12345", "京A 12345", "京A 12346"),
                ("AB12CDE", "AB12 CDE", "AB12 CDF"),
            ]
        ),
    )
    def it_finds_them_with_and_without_separators(self, query, written, other):
        right = f"联系方式：{written}，请在工作日联系。"
        assert first(query, right, (f"联系方式：{other}，请在工作日联系。",)) == right
        right = f"The entry is {written}, as agreed."
        assert first(query, right, (f"The entry is {other}, as agreed.",)) == right

    @pytest.mark.parametrize(
        ("query", "written", "other"),
        both_ways(
            [
                ("第16条", "第十六条", "第一百一十六条"),
                ("第127条", "第一百二十七条", "第一百七十二条"),
                ("第7章", "第七章", "第十七章"),
                ("240米", "二百四十米", "二百零四米"),
                ("13000人", "一万三千人", "一万两千人"),
                ("4万元", "40000元", "4千元"),
                ("叁拾陆", "三十六", "叁拾柒"),
                ("7kg", "7公斤", "7公里"),
                ("380V", "380伏", "380W"),
                ("18㎡", "18平方米", "18立方米"),
                ("2.500,75 €", "2500,75 €", "2.500,57 €"),
                ("2.500,75 €", "2,500.75", "2.005,75 €"),
                ("7 654 321", "7.654.321", "7 654 312"),
                ("CHF 2'750.00", "CHF 2750.00", "CHF 2'570.00"),
                ("M6x25", "M6×25", "M6×20"),
                ("浙BC23456", "浙B C23456", "浙A C23456"),
                ("4AX7 221-5BC32-0XB8", "4AX72215BC320XB8", "4AX7 222-5BC32-0XB8"),
                ("0A:1B:2C:3D:4E:5F", "0A-1B-2C-3D-4E-5F", "0A-1B-2C-3D-4E-6F"),
            ]
        ),
    )
    def it_finds_them_in_numerals_units_and_separators_of_others(self, query, written, other):
        right = f"The entry {written} applies."
        assert first(query, right, (f"The entry {other} applies.",)) == right
        right = f"本款适用于{written}，另有约定除外。"
        assert first(query, right, (f"本款适用于{other}，另有约定除外。",)) == right

    def it_prefers_the_numeral_as_it_is_written(self):
        right, wrong = "二十六只箱子", "Item 26 in chapter 26."
        assert first("二十六", right, (wrong,)) == right

    def it_takes_no_adverb_for_a_number(self):
        assert ranked("十分重要", ["10 items", "1 item"]) == []

    def it_joins_no_columns_of_a_table(self):
        table = "2011 2012 2013 2014 2015 2016 2017 2018 2019 2020"
        assert ranked("2011201220132014", [table]) == []

    def it_does_not_confuse_versions(self):
        right, wrong = "Upgrade to version 1.2.10 first.", "Upgrade to version 1.10.2 first."
        assert first("1.2.10", right, (wrong,)) == right
        assert first("version 1.10.2", wrong, (right,)) == wrong


class DescribeNames:
    @pytest.mark.parametrize(
        ("query", "written", "other"),
        both_ways(
            [
                ("RTX3070", "RTX 3070", "RTX 3080"),
                ("Galaxy S23", "Galaxy S 23", "Galaxy S22"),
                ("iPhone14", "iPhone 14", "iPhone 15"),
                ("F16", "F 16", "F 35"),
                ("J-20", "J20", "J-16"),
                ("GB/T 19001", "GB/T 19001—2016", "GB/T 14001—2016"),
                ("GB/T 19001-2016", "GB/T 19001—2016", "GB/T 19001—2008"),
                ("ISO/IEC 27001", "ISO/IEC27001", "ISO/IEC 27701"),
                ("wifi", "Wi-Fi", "Li-Fi"),
                ("lineup", "line-up", "line-out"),
                ("add-on", "addon", "add-in"),
                ("walkthrough", "walk-through", "walk-in"),
                ("max_retry_count", "max retry count", "max retry delay"),
                ("Python3.11", "Python 3.11", "Python 3.10"),
                ("HbA2", "Hb A2", "Hb F2"),
                ("Ph.D.", "PhD", "Ph.C."),
                ("Q&A", "Q & A", "Q & B"),
                ("γ-globulin", "gamma-globulin", "β-globulin"),
                ("signout", "sign out", "sign off"),
                ("sign in", "signin", "sign on"),
                ("breakdown", "break down", "break off"),
                ("database", "data base", "air base"),
                ("notebook", "note book", "note pad"),
                ("Schröder", "Schroeder", "Schrader"),
            ]
        ),
    )
    def it_finds_them_joined_and_in_parts(self, query, written, other):
        right = f"The {written} is described here."
        assert first(query, right, (f"The {other} is described here.",)) == right
        right = f"本节介绍{written}的用法。"
        assert first(query, right, (f"本节介绍{other}的用法。",)) == right

    @pytest.mark.parametrize(
        ("query", "right", "wrong"),
        [
            ("retry count", "def getRetryCount(): ...", "def getRetryDelay(): ..."),
            ("illegal state", "It raises IllegalStateException.", "It raises IllegalArgumentException."),
            ("order service", "class OrderService", "class OrderRepository"),
            ("get retry count", "getRetryCount()", "getRetryDelay()"),
            ("getRetryCount", "How to get the retry count", "How to get the retry delay"),
            ("log in", "The login is explained here.", "The logout is explained here."),
            ("log in", "The login is explained here.", "How to log out."),
            ("HTTPServerError", "an http server error", "an http client error"),
            ("#CloudComputing", "Notes on cloud computing", "Notes on computing"),
            ("l'hôtel", "Un hotel", "Un hospice"),
            ("A股", "买入A股", "买入H股"),
        ],
    )
    def it_finds_names_in_camel_case_by_their_words(self, query, right, wrong):
        assert first(query, right, (wrong,)) == right

    def it_puts_the_number_of_a_standard_before_the_words_beside_it(self):
        right, wrong = "GB/T 19001—2016 质量管理体系", "GB/T 14001—2016 是一项国家标准"
        others = ("国家标准由标准化委员会发布。", "推荐性国家标准")
        assert first("GB/T 19001 国家标准", right, (wrong, *others)) == right


class DescribeDates:
    ONE_DAY = (
        "2024年3月5日",
        "二〇二四年三月五日",
        "2024-03-05",
        "2024/3/5",
        "5 March 2024",
        "March 5, 2024",
        "5th of March, 2024",
        "Mar 5, 2024",
        "05.03.2024",
        "3/5/2024",
        "5. März 2024",
    )

    @pytest.mark.parametrize("query", ONE_DAY)
    @pytest.mark.parametrize("written", ONE_DAY)
    def it_finds_a_day_however_it_is_written(self, query, written):
        others = ("2024年5月13日", "2024-05-04", "3 May 2005", "April 5, 2024", "05.03.2023", "2024年3月15日")
        right, wrong = (
            f"The contract was signed on {written} in Beijing.",
            [f"The contract was signed on {other} in Beijing." for other in others],
        )
        assert first(query, right, tuple(wrong)) == right
        right, wrong = f"合同于{written}签订。", [f"合同于{other}签订。" for other in others]
        assert first(query, right, tuple(wrong)) == right

    @pytest.mark.parametrize(
        ("query", "right", "wrong"),
        [
            ("meetings in March 2024", "Minutes of 2024-03-18", "Minutes of 2024-04-03"),
            ("2024年3月的会议", "会议纪要：2024-03-18", "会议纪要：2024-04-03"),
            ("2:30 pm", "It begins at 14:30.", "It begins at 2:40 or 30 minutes later."),
            ("14:30", "It begins at 2:30 p.m. sharp.", "It begins at 14:40 in room 30."),
            ("下午2点30分", "会议14:30开始。", "会议2:40开始，共30分钟。"),
            ("2024年第二季度", "Results of Q2 2024", "Results of Q3 2024"),
            ("16:30", "会议下午四点半开始。", "会议下午四点开始。"),
            ("下午四点半", "会议16:30开始。", "会议14:30开始。"),
            ("16h30", "It begins at 16:30.", "It begins at 16:03."),
            ("五月七日", "5月7日开会。", "7月5日开会。"),
            ("5月7日", "五月七日开会。", "七月五日开会。"),
            ("令和4年5月7日", "2022-05-07", "2021-05-07"),
            ("2022-05-07", "令和4年5月7日に開催", "平成4年5月7日に開催"),
        ],
    )
    def it_finds_months_and_times(self, query, right, wrong):
        assert first(query, right, (wrong,)) == right

    def it_takes_no_impossible_day_for_a_date(self):
        right, wrong = "Batch 2024-13-45 is blocked.", "Batch 2024-13-54 is blocked."
        assert first("2024-13-45", right, (wrong,)) == right


class DescribeSayings:
    WRONG = (
        "Not so.",
        "Not all goods were delivered.",
        "It was the man who came, or the other one.",
        "It is what it was.",
    )

    @pytest.mark.parametrize(
        ("query", "right"),
        [
            ("let it be", "They sang Let It Be at the end."),
            ("The Who", "A record by The Who."),
            ("it is what it is", "Well, it is what it is."),
            ("to have or not to have", "A novel: To Have or Not to Have."),
            ('"not all of us"', "A poem, Not All of Us, by a friend."),
        ],
    )
    def it_finds_words_of_grammar_alone(self, query, right):
        others = ("Let him sing, it may be good.", "To have it, or to not have it.", "Us? Not all. Of course.")
        assert first(query, right, (*self.WRONG, *others)) == right

    @pytest.mark.parametrize(
        ("query", "right", "wrong"),
        [
            ('"cold water pump"', "The cold water pump is new.", "Pump cold water: water of the cold pump, cold pump."),
            ("《红楼梦》", "他读《红楼梦》。", "红楼里的梦，楼梦，红楼，红楼。"),
            ("的的喀喀湖", "的的喀喀湖位于秘鲁。", "喀纳斯湖的湖水。"),
        ],
    )
    def it_ranks_a_quotation_that_stands_so_first(self, query, right, wrong):
        assert first(query, right, (wrong,)) == right


class DescribeScripts:
    @pytest.mark.parametrize(
        ("query", "right", "wrong"),
        [
            ("काम", "यह काम आसान है।", "क म अलग अक्षर हैं।"),
            ("विद्यालय", "विद्यालय सोमवार को खुलेगा।", "वि द्या लय"),
            ("தமிழ்", "இது தமிழ் புத்தகம்.", "தம அலை"),
            ("שלום", "הוא אמר שָׁלוֹם לכולם.", "שלג ירד."),
            ("বাংলা", "এটি বাংলা বই।", "ব ল"),
        ],
    )
    def it_keeps_words_of_scripts_with_marks_whole(self, query, right, wrong):
        assert ranked(query, [wrong, right]) == [right]

    @pytest.mark.parametrize(
        ("query", "right", "wrong"),
        [
            ("हिंदी", "हिन्दी सरल है।", "हिंसा बंद हो।"),
            ("ミカン", "みかんを食べる", "みそを食べる"),
            ("いちご", "イチゴを買う", "イチジクを買う"),
        ],
    )
    def it_finds_words_in_the_other_letters_of_a_script(self, query, right, wrong):
        assert ranked(query, [wrong, right])[:1] == [right]
        assert first(right.split("を")[0].split()[0], query, (wrong,)) == query


class DescribeNumbersInWords:
    @pytest.mark.parametrize(
        ("query", "right", "wrong"),
        both_ways(
            [
                ("ten thousand lanterns", "10,000 lanterns", "1,000 lanterns"),
                ("half a million readers", "500,000 readers", "50,000 readers"),
                ("one hundred and five beds", "105 beds", "five hundred beds"),
                ("World War II", "World War 2", "World War 1"),
                ("volume IV", "volume 4", "volume VI"),
                ("3,5 kg", "3.5 kg", "35 kg"),
                ("3층 화장실", "삼층 화장실", "오층 화장실"),
                ("12번 문", "십이번 문", "이번 문"),
                ("三公里步道", "3km 步道", "13km 步道"),
                ("10公斤大米", "10kg 大米", "25kg 大米"),
                ("重37摄氏度", "重 37℃", "重 25℃"),
                ("40 degrees Celsius", "40°C", "80 °C"),
            ]
        )[:-1],
    )
    def it_reads_them_as_digits(self, query, right, wrong):
        right, wrong = f"Here is the {right} that we saw.", f"Here is the {wrong} that we saw."
        assert first(query, right, (wrong,)) == right

    @pytest.mark.parametrize(
        ("query", "right", "wrong"),
        both_ways(
            [
                ("第四季度计划", "Q4 计划", "Q1 计划"),
                ("一季度产量", "Q1 产量", "Q2 产量"),
                ("third quarter budget", "Q3 budget", "Q2 budget"),
                ("H1 2024", "first half of 2024", "second half of 2024"),
                ("2024年下半年", "H2 2024", "H1 2024"),
                ("上半年利润", "H1 利润", "H2 利润"),
                ("周三例会", "星期三例会", "周五例会"),
                ("礼拜天值班", "周日值班", "周六值班"),
                ("noon train", "12:00 train", "17:00 train"),
            ]
        ),
    )
    def it_reads_parts_of_a_year_and_of_a_week(self, query, right, wrong):
        right, wrong = f"The note of {right} is ready.", f"The note of {wrong} is ready."
        assert first(query, right, (wrong,)) == right


class DescribeCodesInOtherGroups:
    @pytest.mark.parametrize(
        ("query", "right", "wrong"),
        both_ways(
            [
                ("9780374244797", "978-0374244797", "978-0374244779"),
                ("978-0-374-24479-7", "978-0374244797", "978-0374244779"),
                ("139.3036.4262", "13930364262", "13930366242"),
                ("+86-15291506159", "152 9150 6159", "152 9150 6195"),
                ("Model 71Pro", "Model71 Pro", "Model 17Pro"),
                ("IEEE802.11ax", "IEEE 802.11ax", "IEEE 802.11ac"),
                ("ISO/IEC 17025", "ISO 17025", "ISO 17020"),
                ("Q&A", "Q and A", "B and B"),
            ]
        ),
    )
    def it_finds_them(self, query, right, wrong):
        right, wrong = f"Look for {right} on the back.", f"Look for {wrong} on the back."
        assert first(query, right, (wrong,)) == right


class DescribeOtherFormsOfAWord:
    @pytest.mark.parametrize(
        ("query", "right", "wrong"),
        both_ways(
            [
                ("mouse in the attic", "mice in the attic", "bats in the attic"),
                ("wolf at the well", "wolves at the well", "lynxes at the well"),
                ("policewoman", "policewomen", "policeman"),
                ("nucleus of a cell", "nuclei of a cell", "wall of a cell"),
                ("criterion", "criteria", "criticism"),
                ("who stole the bell", "steal the bell", "paint the bell"),
                ("frozen pipe", "freeze a pipe", "bend a pipe"),
            ]
        ),
    )
    def it_knows_irregular_words_of_english(self, query, right, wrong):
        right, wrong = f"People say: {right}, again.", f"People say: {wrong}, again."
        assert first(query, right, (wrong,)) == right

    @pytest.mark.parametrize(
        ("query", "right", "wrong"),
        [
            ("Wartung des Aufzugs", "Die Aufzugswartung findet statt.", "Die Wartung der Heizung findet statt."),
            ("Aufzugswartung", "Die Wartung des Aufzugs findet statt.", "Die Wartung der Heizung findet statt."),
            ("Kosten der Wohnung", "Die Wohnungskosten steigen.", "Die Fahrtkosten steigen."),
            ("Zahnarzttermin", "Einen Termin beim Zahnarzt gibt es heute.", "Einen Termin beim Friseur gibt es."),
            ("sleutel van de kelder", "De keldersleutel hangt hier.", "De dakluiksleutel ligt boven."),
        ],
    )
    def it_joins_and_splits_nouns_of_german_and_dutch(self, query, right, wrong):
        assert first(query, right, (wrong,)) == right

    @pytest.mark.parametrize(
        ("query", "right", "wrong"),
        [
            ("کتابیں", "کتاب الماری میں ہے۔", "برتن باورچی خانے میں ہے۔"),
            ("স্কুলে ভর্তি", "স্কুলের ভর্তি শুরু হয়।", "হাসপাতালের ছুটি শুরু হয়।"),
            ("ціни", "Ціна квитка становить сто гривень.", "Кава коштує сорок гривень."),
            ("будинками", "Будинок зведено торік.", "Гараж зведено давно."),
            ("w liceach", "Liceum stoi przy rynku.", "Szpital stoi przy stacji."),
            ("prețurile", "Prețul este zece lei.", "Cafeaua este aici."),
            ("cărților", "Cartea se împrumută aici.", "Biletul se cumpără aici."),
            ("v knihovnách", "Knihovna půjčuje mapy.", "Muzeum prodává mapy."),
        ],
    )
    def it_knows_inflections_of_other_languages(self, query, right, wrong):
        assert first(query, right, (wrong,)) == right


class DescribeSpansOfTime:
    @pytest.mark.parametrize(
        ("query", "written", "other"),
        both_ways(
            [
                ("30 minutes", "half an hour", "half a mile"),
                ("90 minutes", "an hour and a half", "an hour and a quarter"),
                ("2.5 hours", "150 minutes", "250 minutes"),
                ("six months", "half a year", "half a mile"),
                ("two weeks", "fortnight", "weeks"),
                ("the nineties", "the 1990s", "the 1980s"),
                ("1960s", "sixties", "seventies"),
                ("fiscal year 2022-23", "FY2022/23", "FY2021/22"),
                ("season 2018-19", "season 2018/19", "season 2019/20"),
                ("fiscal year 2024", "FY24", "FY42"),
                ("week 7 of 2019", "2019-W07", "2019-W17"),
                ("Monday to Friday", "Mon–Fri", "Sat–Sun"),
                ("Tuesday through Thursday", "Tue-Thu", "Mon-Wed"),
                ("2h30", "150 minutes", "250 minutes"),
                ("60 minutes", "one hour", "one mile"),
                ("13-JUN-14", "June 13th, 2014", "June 30th, 2014"),
                ("6/13/14", "13 June 2014", "30 June 2014"),
            ]
        ),
    )
    def it_finds_them_in_english(self, query, written, other):
        right = f"The entry says {written}, as agreed."
        assert first(query, right, (f"The entry says {other}, as agreed.",)) == right

    @pytest.mark.parametrize(
        ("query", "written", "other"),
        both_ways(
            [
                ("30分钟", "半小时", "50分钟"),
                ("90分钟", "一个半小时", "两个半小时"),
                ("18个月", "一年半", "两年半"),
                ("六个月", "半年", "九个月"),
                ("九十年代", "1990年代", "1980年代"),
                ("90年代", "上世纪九十年代", "上世纪八十年代"),
            ]
        ),
    )
    def it_finds_them_in_chinese(self, query, written, other):
        right = f"档案里写的是{written}的记录。"
        assert first(query, right, (f"档案里写的是{other}的记录。",)) == right

    @pytest.mark.parametrize(
        ("query", "written", "other"),
        [
            ("summer of '69", "the summer of 1969", "the summer of 1996"),
            ("98年的洪水", "1998年的洪水", "1989年的洪水"),
            ("民国二十六年", "1937年", "1926年"),
            ("令和6年", "2024年", "2006年"),
            ("quarter past seven in the evening", "19:15", "7:25"),
            ("0630 hours", "6:30 a.m.", "6:50 a.m."),
            ("twenty past three", "3:20", "3:40"),
            ("ten to six", "5:50", "6:10"),
            ("1Q19", "first quarter of 2019", "first quarter of 2018"),
            ("元月八号", "1月8日", "8月1日"),
            ("晚九点", "21:00", "9:00"),
            ("2015年", "二〇一五年", "二〇一八年"),
            ("7:45", "七点四十五分", "七点五十四分"),
            ("13:20", "十三点二十分", "十二点三十分"),
            ("下午三点半", "巡检时间：15:30", "巡检时间：13:30"),
            ("halb vier", "15:30 Uhr", "16:30 Uhr"),
            ("15:30 Uhr", "halb vier", "halb fünf"),
        ],
    )
    def it_finds_years_and_times(self, query, written, other):
        right = f"Entry, 记录：{written}, 已确认。"
        assert first(query, right, (f"Entry, 记录：{other}, 已确认。",)) == right


class DescribeWordsOfRegions:
    @pytest.mark.parametrize(
        ("query", "written", "other"),
        both_ways(
            [
                ("網路連線", "网络连接", "网络游戏"),
                ("資料庫備份", "数据库备份", "图书馆备份"),
                ("搭計程車", "乘出租车", "乘公交车"),
                ("滑鼠故障", "鼠标故障", "键盘故障"),
                ("電腦當機", "计算机死机", "洗衣机停机"),
                ("硬碟容量", "硬盘容量", "光盘容量"),
            ]
        ),
    )
    def it_finds_taiwans_words_by_the_mainlands(self, query, written, other):
        right = f"手册第三页讲{written}。"
        assert first(query, right, (f"手册第三页讲{other}。",)) == right


class DescribeAmounts:
    @pytest.mark.parametrize(
        ("query", "written", "other"),
        both_ways(
            [
                ("$1,250.00", "1250 dollars", "1520 dollars"),
                ("1.500,00 €", "1500 Euro", "5100 Euro"),
                ("16 GB", "16 gigabytes", "61 gigabytes"),
                ("150 lbs", "150 pounds", "105 pounds"),
                ("12 feet", "12 ft", "21 ft"),
                ("6 ft 2", "6'2\"", "5'11\""),
                ("minus 40 degrees", "-40 °C", "-14 °C"),
                ("零下18度", "-18℃", "-8℃"),
                ("100平方米", "100 sqm", "200 sqm"),
                ("3/4", "three quarters", "two quarters"),
                ("1/5", "五分之一", "八分之一"),
                ("0.5%", "千分之五", "千分之八"),
                ("£3m", "£3 million", "£8 million"),
                ("v3", "version 3", "version 4"),
                ("3-5 days", "three to five days", "five to nine days"),
            ]
        ),
    )
    def it_finds_cents_units_and_signs(self, query, written, other):
        right = f"The entry is {written}, as agreed."
        assert first(query, right, (f"The entry is {other}, as agreed.",)) == right

    @pytest.mark.parametrize(
        ("query", "digits", "other"),
        [
            ("fünfundvierzig Euro", "45 Euro", "54 Euro"),
            ("tweeëntwintig stoelen", "22 stoelen", "32 stoelen"),
            ("quatre-vingt-dix euros", "90 euros", "80 euros"),
            ("soixante et onze pages", "71 pages", "61 pages"),
            ("treinta y cinco alumnos", "35 alumnos", "53 alumnos"),
            ("ventotto gradi", "28 gradi", "38 gradi"),
            ("quarenta e dois quartos", "42 quartos", "24 quartos"),
            ("двадцать пять процентов", "25%", "52%"),
            ("World War Two", "World War II", "World War I"),
            ("Henry the eighth", "Henry VIII", "Henry VII"),
            ("Louis XIV", "Louis the Fourteenth", "Louis the Sixteenth"),
            ("七成", "70%", "30%"),
            ("三班的老师", "3班的老师", "13班的老师"),
        ],
    )
    def it_reads_numbers_in_words(self, query, digits, other):
        right = f"B 7: {digits}."
        assert first(query, right, (f"B 7: {other}.",)) == right


class DescribeCodes:
    @pytest.mark.parametrize(
        ("query", "written", "other"),
        both_ways(
            [
                ("1Z999AA10123456784", "1Z 999 AA1 01 2345 6784", "1Z 999 AA1 01 2345 6748"),
                ("91110108MA01ABCD2X", "9111 0108 MA01 ABCD 2X", "9111 0108 MA01 ABDC 2X"),
                ("1HGCM82633A004352", "1HG CM826 33A 004352", "1HG CM826 33A 004325"),
                ("800.555.0199", "1-800-555-0199", "1-800-555-0191"),
                ("8 (912) 345-67-89", "+7 912 345-67-89", "+7 912 345-67-98"),
            ]
        ),
    )
    def it_joins_their_groups(self, query, written, other):
        right = f"Order {written} is here."
        assert first(query, right, (f"Order {other} is here.",)) == right

    def it_splits_names_with_acronyms(self):
        right = "getHTTPResponseCode is called once."
        assert first("get HTTP response code", right, ("getHTTPRequestCode is called twice.",)) == right

    @pytest.mark.parametrize("length", [7, 8, 10, 12, 40])
    def it_finds_a_digest_by_its_beginning(self, length):
        digest = "9fceb02d0ae598e95dc970b74767f19372d61af8"
        right, wrong = f"Commit {digest} broke it.", f"Commit 9fcab02{digest[7:]} mended it."
        assert first(digest[:length], right, (wrong,)) == right


class DescribeOtherLanguages:
    @pytest.mark.parametrize(
        ("query", "right", "wrong"),
        [
            ("5 mars 2024", "Le 05/03/2024, la clôture fut repeinte.", "Le 03/05/2024, la grille fut repeinte."),
            ("5 de marzo de 2024", "El 05/03/2024 se pintó la valla.", "El 03/05/2024 se pintó la puerta."),
            ("4 marzo 2021", "Il 04/03/2021 c'era il mercato.", "Il 03/04/2021 c'era la fiera."),
            ("у бібліотеці", "Бібліотека відчиняється о дев'ятій.", "Крамниця відчиняється о восьмій."),
            ("Kündigung Frist", "Die Kündigungsfrist beträgt drei Monate.", "Die Lieferfrist beträgt drei Wochen."),
        ],
    )
    def it_finds_days_and_forms(self, query, right, wrong):
        assert first(query, right, (wrong,)) == right

    def it_takes_an_english_date_either_way(self):
        right = "The fence was painted on 03/05/2024."
        assert {first(query, right) for query in ("5 March 2024", "3 May 2024")} == {right}


class DescribeNearMisses:
    @pytest.mark.parametrize(
        ("query", "other"),
        [
            ("13912345678", "13912345679"),
            ("1.2.10", "1.10.2"),
            ("GB/T 19001", "GB/T 14001"),
            ("9111 0108 MA01 ABCD 2X", "9111 0108 MA01 ABDC 2X"),
            ("the 1980s", "the 1880s"),
            ("13:20", "1:20"),
            ("0.5%", "5%"),
        ],
    )
    def it_prefers_the_same_to_what_differs_in_one_sign(self, query, other):
        for asked, unlike in ((query, other), (other, query)):
            right = f"The entry is {asked}, as agreed."
            assert first(asked, right, (f"The entry is {unlike}, as agreed.",)) == right
