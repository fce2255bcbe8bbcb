"""(hypotheses, references) -> scores with their signatures. Knows text only: no model, no ids, no files.

Two families that are never mixed: the courses' BLEU and exact match, from 0 to 1 (`course_bleu`), and the published
sacreBLEU, chrF and TER, as percentages (`translation`). `requirements` holds them against a recipe's limits.
"""
