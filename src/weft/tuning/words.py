"""The words of a study's tables in Chinese, by their English."""

ZH = {
    "Study {name}": "研究 {name}",
    "arm": "组",
    "sd": "标准差",
    "seeds": "种子",
    "difference": "差值",
    "verdict": "结论",
    "seconds": "秒",
    "parameters": "参数",
    "failed": "失败",
    "stopped": "已淘汰",
    "baseline": "基准",
    "better": "更好",
    "worse": "更差",
    "cannot tell": "无法判断",
    "Claims": "已有的说法",
    "claim": "说法",
    "not measured": "未测",
    "agrees": "一致",
    "contradicts": "不一致",
    "{left} of {all} trials are not finished": "{all} 个试验中还有 {left} 个没有完成",
    "trial {number} failed: {why}": "试验 {number} 失败：{why}",
    "{metric} on one half of valid: {half:,} of {all:,}": ("{metric} 在验证集的一半上计算：{all:,} 条中的 {half:,} 条"),
    "test files opened: {count}": "打开测试集的次数：{count}",
    "baseline: {values}": "基准：{values}",
    "the recipe as it is": "配方原样",
    "a run's deviation: {sd:.2g}, pooled over all cells ({df} df)": (
        "单次运行的标准差：{sd:.2g}，由所有单元合并估计（自由度 {df}）"
    ),
    "seeds and {count:,} sentences": "种子和 {count:,} 个句子",
    "verdicts over {what}, Student's t, adjusted by Holm; [95 % intervals that hold together]": (
        "结论考虑了{what}的波动，用 t 检验，按 Holm 方法校正；方括号内是同时成立的 95 % 区间"
    ),
    "{count} more seeds would tell {some} of the {all} cells that are open, {hours:.1f} core hours": (
        "{all} 个无法判断的单元中，再加 {count} 个种子可以判断 {some} 个，需要 {hours:.1f} 核时"
    ),
    "{count:,} more sentences would tell {some} of the {all} cells that are open": (
        "{all} 个无法判断的单元中，再加 {count:,} 个句子可以判断 {some} 个"
    ),
    "cells that stay open differ too little for any affordable number of seeds": ("其余单元差别太小，增加种子已不现实"),
    "differences of {now:.2g} are found in 80 % of cases": "80 % 的情况下能看出 {now:.2g} 的差别",
    "differences of {now:.2g} are found in 80 % of cases; on 200 sentences only of {few:.2g}": (
        "80 % 的情况下能看出 {now:.2g} 的差别；若只有 200 个句子，则只能看出 {few:.2g} 的差别"
    ),
    "best: {values}": "最好：{values}",
    "the best {key} = {value} is at the edge of what was tried": "最好的 {key} = {value} 在所试范围的边上",
    "try {value:g} beyond it": "再试试 {value:g}",
    "widen the range": "请放宽范围",
    "importance, by PED-ANOVA: {shares}": "重要性（PED-ANOVA）：{shares}",
    "*: no other cell is better in both {metric} and {cost}": "*：没有别的单元在 {metric} 和{cost}上都更好",
    "halving took {taken:,} target tokens, {share} of {whole:,}": (
        "逐级淘汰用了 {taken:,} 个目标词元，是 {whole:,} 的 {share}"
    ),
    "rung {rung} against {later}: Spearman {rho:.2f} [{low}, {high}] over {points} points that came there": (
        "第 {rung} 级与{later}相比：Spearman {rho:.2f} [{low}, {high}]，共 {points} 个到达的点"
    ),
    "the end": "终点",
    "fewer than three points came to any later rung: how far a rung can be trusted is not known": (
        "到达下一级的点不足三个，无从知道各级有多可信"
    ),
    "confirmed with new seeds ({seeds}) on the other half: {mean}, chosen with {chosen} ({change})": (
        "用新种子（{seeds}）在另一半上复核：{mean}，选出时为 {chosen}（{change}）"
    ),
    "there against the baseline: {difference}: {told}": "复核时与基准相比：{difference}：{told}",
    "We varied {keys} of {base} in {cells} settings with {seeds} seeds each, {tokens:,} target tokens a run.": (
        "我们在 {base} 上改变 {keys}，共 {cells} 种设置，每种 {seeds} 个种子，每次训练 {tokens:,} 个目标词元。"
    ),
    "Settings were compared by {metric} on {half:,} pairs of the validation set; the test set was not opened.": (
        "各设置按 {metric} 在验证集的 {half:,} 个句对上比较；没有打开测试集。"
    ),
    "Against {baseline}, {better} are better, {worse} worse, {equal} no different beyond the margin, and of {open"
    "} the runs cannot tell (pooled deviation {sd:.2g}, Holm's adjustment, 5 %).": (
        "与基准（{baseline}）相比，{better} 个更好，{worse} 个更差，{equal} 个差别不超过界限，{open} 个无"
        "法判断（合并标准差 {sd:.2g}，Holm 校正，5 % 水平）。"
    ),
    "The best mean, {mean}, has {values}.": "平均最好的是 {mean}，设置为 {values}。",
}
WORDS = {"zh": ZH}
