"""Language codes: a language may have several; rules about it use one of them."""

import re

from weft.errors import UsageError

CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8}){0,3}")
NOT_A_CODE = "is not a language code; write a code of two or three letters, such as en, zh or zh-TW"


def is_language_code(code: str) -> bool:
    """Whether a text has the form of a language code, in any script or region: de, cmn, zh-TW, cmn_Hans."""
    return CODE.fullmatch(code) is not None


def in_one_spelling(code: str) -> str:
    """A code in lower case with hyphens: zh-tw for zh_TW."""
    return code.lower().replace("_", "-")


def code_of(language: str) -> str:
    """The code of a language without script and region, with two letters if it has such a code: zh for zh-CN and
    cmn_Hans, de for deu and ger, yue for yue."""
    code = in_one_spelling(language).split("-")[0]
    return TWO_LETTERS.get(code, code)


def is_one_language(code: str, other: str) -> bool:
    """Whether both codes mean the same language, in any script or region."""
    return code_of(code) == code_of(other)


def is_known(language: str) -> bool:
    """Whether a code is one of ISO 639 with two letters, or may be one with three, of which there are thousands."""
    code = code_of(language)
    return code in TWO_LETTERS.values() or (
        re.fullmatch("[a-z]{3}", code) is not None and code not in (*MEANT, *ENDINGS)
    )


def is_common(language: str) -> bool:
    """Whether a code is one of two letters or has one, or is one of the Chinese languages."""
    return code_of(language) in {*TWO_LETTERS.values(), *CHINESE_CODES}


def refuse_unknown(language: str, name: str) -> None:
    """Raise UsageError for a code of no language, with what was possibly meant.

    `name` is that of the option or key. An unknown code would be taken for a language that separates words by spaces,
    which scores Chinese wrongly.
    """
    if not is_known(language):
        meant = MEANT.get(language.lower())
        hint = (
            f"did you mean {meant}?"
            if meant
            else "write one such as zh, en or cmn; qaa to qtz are free for a language without a code"
        )
        raise UsageError(f"{name} = {language!r} is not a language code of ISO 639; {hint}")


def is_written_without_spaces(language: str) -> bool:
    """Whether a language has no white space between words, so that its texts are counted in characters."""
    return code_of(language) in WITHOUT_SPACES


def is_in_words_of_characters(language: str) -> bool:
    """Whether a character is a word or half of one, as in Chinese and Japanese, whose sentences also follow each other
    without a space. In Thai, which has no spaces between words either, letters spell words."""
    return code_of(language) in IN_WORDS_OF_CHARACTERS


CHINESE_CODES = frozenset(["zh", "yue", "wuu", "lzh"])
IN_WORDS_OF_CHARACTERS = CHINESE_CODES | {"ja"}
WITHOUT_SPACES = IN_WORDS_OF_CHARACTERS | {"th", "lo", "km", "my", "bo", "dz"}
"""Languages without spaces between words. Korean has spaces."""
ELIDING = frozenset(["fr", "it", "ca", "oc"])
"""Languages with elisions, such as l'amour."""

PAIRS = (
    "aar:aa abk:ab afr:af aka:ak alb:sq als:sq amh:am ara:ar arb:ar arg:an arm:hy asm:as ava:av ave:ae aym:ay "
    "ayr:ay aze:az azj:az bak:ba bam:bm baq:eu bel:be ben:bn bis:bi bod:bo bos:bs bre:br bul:bg bur:my cat:ca "
    "ces:cs cha:ch che:ce chi:zh chu:cu chv:cv cmn:zh cor:kw cos:co cre:cr cym:cy cze:cs dan:da deu:de div:dv "
    "dut:nl dzo:dz ekk:et ell:el eng:en epo:eo est:et eus:eu ewe:ee fao:fo fas:fa fij:fj fin:fi fra:fr fre:fr "
    "fry:fy ful:ff fuv:ff gaz:om geo:ka ger:de gla:gd gle:ga glg:gl glv:gv gre:el grn:gn guj:gu hat:ht hau:ha "
    "heb:he her:hz hin:hi hmo:ho hrv:hr hun:hu hye:hy ibo:ig ice:is ido:io iii:ii iku:iu ile:ie ina:ia ind:id "
    "ipk:ik isl:is ita:it jav:jv jpn:ja kal:kl kan:kn kas:ks kat:ka kau:kr kaz:kk khk:mn khm:km kik:ki kin:rw "
    "kir:ky kmr:ku knc:kr kom:kv kon:kg kor:ko kua:kj kur:ku lao:lo lat:la lav:lv lim:li lin:ln lit:lt ltz:lb "
    "lub:lu lug:lg lvs:lv mac:mk mah:mh mal:ml mao:mi mar:mr may:ms mkd:mk mlg:mg mlt:mt mon:mn mri:mi msa:ms "
    "mya:my nau:na nav:nv nbl:nr nde:nd ndo:ng nep:ne nld:nl nno:nn nob:nb nor:no npi:ne nya:ny oci:oc oji:oj "
    "ori:or orm:om ory:or oss:os pan:pa pbt:ps per:fa pes:fa pli:pi plt:mg pol:pl por:pt pus:ps que:qu quy:qu "
    "roh:rm ron:ro rum:ro run:rn rus:ru sag:sg san:sa sin:si slk:sk slo:sk slv:sl sme:se smo:sm sna:sn snd:sd "
    "som:so sot:st spa:es sqi:sq srd:sc srp:sr ssw:ss sun:su swa:sw swe:sv swh:sw tah:ty tam:ta tat:tt tel:te "
    "tgk:tg tgl:tl tha:th tib:bo tir:ti ton:to tsn:tn tso:ts tuk:tk tur:tr twi:tw uig:ug ukr:uk urd:ur uzb:uz "
    "uzn:uz ven:ve vie:vi vol:vo wel:cy wln:wa wol:wo xho:xh ydd:yi yid:yi yor:yo zha:za zho:zh zsm:ms zul:zu"
)
"""Codes of ISO 639-2, and of ISO 639-3 for the form of a language that corpora use, with the code of two letters."""
TWO_LETTERS = {three: two for three, _, two in (pair.partition(":") for pair in PAIRS.split())}
ENDINGS = frozenset(["bpe", "hyp", "low", "out", "raw", "ref", "src", "tgt", "tok", "trg", "txt"])
"""Endings of file names that are no codes of languages."""
NAMES = (
    "cn:zh chn:zh chinese:zh mandarin:zh english:en us:en gb:en jp:ja jap:ja japanese:ja korean:ko german:de "
    "ge:de french:fr spanish:es sp:es russian:ru vn:vi ua:uk ukrainian:uk cz:cs czech:cs gr:el greek:el dk:da "
    "danish:da arabic:ar portuguese:pt italian:it hindi:hi swedish:sv dutch:nl polish:pl turkish:tr"
)
MEANT = {name: code for name, _, code in (pair.partition(":") for pair in NAMES.split())}
"""Codes of countries and names of languages that are given in place of a code."""
