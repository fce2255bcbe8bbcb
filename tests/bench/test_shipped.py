"""What the shipped models are chosen by shares no sentence with what they learn from, however it is spelled."""

from bench.shipped import AGAINST, held_out, keys, new_pairs, table, with_license


def test_a_sentence_is_known_whatever_its_script_case_width_spacing_and_punctuation() -> None:
    assert keys(("湯姆說：「ＡＢ」！", 'Tom said: "A B".')) == keys(("汤姆说 ab", "tom said AB"))
    assert keys(("我有1个。", "One")) != keys(("我有2个。", "One"))


def test_only_pairs_whose_sentences_stand_nowhere_else_are_held_out() -> None:
    alone = [(f"句子{n}", f"sentence {n}") for n in range(40)]
    doubled = [("同样", "same one"), ("同樣。", "same two"), ("另一", "same other"), ("再一", "Same other!")]
    training, valid = held_out([*doubled, *alone], 10)
    assert len(valid) == 10 and set(valid) <= set(alone)
    assert sorted([*training, *valid]) == sorted([*doubled, *alone])
    assert not {key for pair in training for key in keys(pair)} & {key for pair in valid for key in keys(pair)}


def test_the_pairs_held_out_do_not_depend_on_the_order_of_the_file() -> None:
    pairs = [(f"句子{n}", f"sentence {n}") for n in range(40)]
    assert set(held_out(pairs, 10)[1]) == set(held_out(pairs[::-1], 10)[1])


def test_of_what_a_model_wrote_only_new_pairs_without_held_out_sentences_are_kept() -> None:
    known, valid = [("你好。", "Hello.")], [("再见。", "Goodbye.")]
    new = ("你好。", "Hi there.")
    written = [("你好", "hello"), new, ("你好！", "Hi, there!"), ("拜拜。", "Goodbye!"), ("再見", "See you.")]
    assert new_pairs(written, known, valid) == [new]


def test_the_card_says_license_and_sources() -> None:
    card = "---\nlicense: unknown\n---\n## Data\nThe licence of the weights follows from these files; put it into the "
    card += "header before you pass the model on.\n"
    written = with_license(card, "zh-en")
    assert "license: cc-by-2.0\n" in written and "tatoeba.org" in written and "unknown" not in written


def test_a_run_of_another_recipe_stands_in_the_table_without_a_size_and_with_a_word_about_it() -> None:
    scores = {name: {"value": 36.75, "signature": f"{name}|nrefs:1"} for name in ("sacrebleu", "chrf")}
    about = {
        "date": "2026-11-22",
        "commit": "abc",
        "processor": "a processor",
        "device": "cpu",
        "seconds": 9.5,
        "scores": scores,
    }
    shipped = {"model": "zh-en", "bytes": 11_700_000, "parameters": 5, "target_tokens": 7, **about}
    other = {**shipped, "model": "zh-en-50k (zh-en)", "bytes": None, "device": "a GPU"}
    for language in ("en", "zh"):
        written = table([shipped, other], language)
        assert "| `zh-en` | 11.7 | 5 | 7 | 36.75 | 36.75 | 9.5 |" in written
        assert "| `zh-en-50k (zh-en)` | – |" in written
        assert "a processor" in written and "a GPU" in written
        assert AGAINST[language] in written and "`sacrebleu|nrefs:1`" in written
        assert AGAINST[language] not in table([shipped], language)
