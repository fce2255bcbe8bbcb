/**
 * The texts of the page in English and Chinese, and how they are put into elements.
 *
 * put, label      give an element a text or a label by its key, and return it; both follow when the language is changed
 * speak           changes the language of the whole page
 */

export const TEXTS = {
  en: {
    title: "weft: translation",
    translate: "Translate",
    stop: "Stop",
    source_language: "Language of the text",
    target_language: "Language of the translation",
    swap: "Swap the languages",
    source_text: "Text",
    translation: "Translation",
    answer_words: "Translation, word by word: arrow keys move, Enter shows alternatives for a word",
    write_here: "Write or paste a text",
    detect: "Detect language",
    detected: "{language} (detected)",
    guessed: "{language}? (not sure)",
    not_detected: "Language not recognized",
    count: "{count}",
    count_of: "{count} / {limit}",
    too_long: "The text is {over} over the limit of {limit} characters. Nothing was sent.",
    clear: "Clear the text",
    confidence: "Confidence",
    copy: "Copy",
    copy_as_curl: "Copy as curl",
    copied: "Copied.",
    copied_without_key: "Copied, with YOUR_KEY in place of the API key.",
    not_copied: "The browser did not allow the page to copy.",
    nothing_to_copy: "Nothing to copy yet.",
    api_key: "API key",
    dark: "Dark colors",
    other_language: "中文",
    others: "Other translations",
    beam: "Beam search",
    glossary: "Glossary",
    history: "History",
    keys:
      "Ctrl+Enter translates. In the translation, arrow keys move from word to word, Enter shows alternatives, " +
      "Escape closes.",
    translating: "Translating …",
    sentences: "Sentences so far: {count} …",
    done: "Done in {seconds} s.",
    stopped: "Stopped.",
    translation_is: "Translation: {text}",
    no_model:
      "This looks like {source}, which this server does not translate to {target}. If it is another language, choose " +
      "it above.",
    models_are: "Models (license): ",
    file_pick: "Translate a file …",
    file_running: "Translating {name} …",
    file_done: "Translated parts: {translated}; kept as they are: {passed}; not understood: {notUnderstood}.",
    file_get: "Download {name}",
    flag_repetition: "The translation repeats itself; compare it with the text.",
    flag_length: "The translation was cut off at its maximum length; compare it with the text.",
    flag_numbers: "The translation has other numbers than the text; compare them.",
    terms_lost: "The chosen translation no longer contains these terms of the glossary: {terms}",
    nothing_written: "Write a text first.",
    stale: "The text or its languages have changed since it was translated.",
    confidence_is: "Dotted: less than 80% sure. Underlined: less than 50%. Wavy: less than 20%. Gray: not known.",
    explaining: "Explaining …",
    not_explained: "No explanation: {reason}",
    attended: "{word}: {probability} sure; attended to {sources}",
    attended_none: "{word}: {probability} sure",
    needed: "; depended most on {source}",
    written_by: "{source}: attended to by {words}",
    written_by_none: "{source}: hardly attended to",
    with_share: "{word} {share}",
    separator: ", ",
    instead_of: "Instead of “{word}”",
    own_word: "Another word",
    ends_here: "(the sentence ends)",
    no_choice: "The model has no alternative here.",
    close: "Close",
    again: "Try again",
    beam_empty: "Translate a text, then open this to see what the search tried.",
    beam_given: "The plain search did not find this translation: it was chosen, contains terms, or was searched again.",
    beam_sentence: "Sentence",
    beam_dropped: "Show dropped branches",
    beam_node: "“{text}”, log-probability {log_prob}, {state}",
    beam_tree: "Search tree: arrow keys move, Enter folds a branch",
    beam_end: "end",
    beam_folded: "{count} more",
    state_best: "best",
    state_finished: "finished",
    state_kept: "kept",
    state_dropped: "dropped",
    glossary_is:
      "From {source} to {target}. Wherever a text contains the left side, its translation contains the right side. " +
      "Kept in this browser and sent with each text, but not with files.",
    glossary_term: "Term",
    glossary_translation: "Its translation",
    glossary_remove: "Remove the term {term}",
    glossary_add: "Add a term",
    glossary_twice: "A term occurs more than once; its last row counts.",
    history_keep: "Keep a history in this browser",
    history_clear: "Clear the history",
    history_empty: "Nothing yet.",
    history_off: "The history is off.",
    error_offline: "The server does not answer.",
    error_refused: "The server refused the text.",
    error_key: "The server requires a valid API key.",
    error_large: "The text is too large for the server.",
    error_often: "Too many requests.",
    error_busy: "The server is busy.",
    error_failed: "The server failed (status {status}).",
    error_broken: "The answer was cut off; what was received is shown above.",
    error_wait: "Try again in {seconds} s.",
  },
  zh: {
    title: "weft：翻译",
    translate: "翻译",
    stop: "停止",
    source_language: "原文语言",
    target_language: "译文语言",
    swap: "互换语言",
    source_text: "原文",
    translation: "译文",
    answer_words: "逐词译文：方向键移动，回车查看此处还可以用什么词",
    write_here: "输入或粘贴文字",
    detect: "检测语言",
    detected: "{language}（自动检测）",
    guessed: "可能是{language}",
    not_detected: "未能识别语言",
    count: "{count}",
    count_of: "{count} / {limit}",
    too_long: "超出 {limit} 个字符的上限 {over} 个，没有发送。",
    clear: "清空原文",
    confidence: "置信度",
    copy: "复制",
    copy_as_curl: "复制为 curl 命令",
    copied: "已复制。",
    copied_without_key: "已复制，请把 YOUR_KEY 换成 API 密钥。",
    not_copied: "浏览器不允许此页面复制。",
    nothing_to_copy: "还没有可复制的内容。",
    api_key: "API 密钥",
    dark: "深色模式",
    other_language: "English",
    others: "其他译法",
    beam: "束搜索",
    glossary: "术语表",
    history: "历史记录",
    keys: "Ctrl+Enter 翻译。在译文中用方向键逐词移动，回车查看此处还可以用什么词，Esc 关闭。",
    translating: "正在翻译……",
    sentences: "已译 {count} 句……",
    done: "用时 {seconds} 秒。",
    stopped: "已停止。",
    translation_is: "译文：{text}",
    no_model: "原文看来是{source}，此服务器不能把它译成{target}。如果判断有误，请在上方选择原文语言。",
    models_are: "模型（许可证）：",
    file_pick: "翻译文件……",
    file_running: "正在翻译 {name}……",
    file_done: "已翻译 {translated} 处，原样保留 {passed} 处，未能识别 {notUnderstood} 处。",
    file_get: "下载 {name}",
    flag_repetition: "译文有重复，请与原文对照。",
    flag_length: "译文过长，已被截断，请与原文对照。",
    flag_numbers: "译文中的数字与原文不一致，请核对。",
    terms_lost: "选定的译文不再包含术语表中的译法：{terms}",
    nothing_written: "请先输入文字。",
    stale: "翻译之后原文或语言有改动。",
    confidence_is: "点线：把握不足 80%；实线：不足 50%；波浪线：不足 20%；灰色：不详。",
    explaining: "正在分析……",
    not_explained: "无法解释：{reason}",
    attended: "{word}：把握 {probability}，关注 {sources}",
    attended_none: "{word}：把握 {probability}",
    needed: "，最依赖{source}",
    written_by: "{source}：受 {words} 关注",
    written_by_none: "{source}：几乎没有受到关注",
    with_share: "{word} {share}",
    separator: "、",
    instead_of: "替换“{word}”",
    own_word: "换成别的词",
    ends_here: "（句子到此结束）",
    no_choice: "模型在此处没有别的词可选。",
    close: "关闭",
    again: "重试",
    beam_empty: "先翻译一段文字，再展开这里，看搜索尝试了什么。",
    beam_given: "这个译文不是普通搜索得出的：它是你选定的、含有术语，或经过重新搜索。",
    beam_sentence: "句子",
    beam_dropped: "显示被舍弃的分支",
    beam_node: "“{text}”，对数概率 {log_prob}，{state}",
    beam_tree: "搜索树：方向键移动，回车折叠分支",
    beam_end: "结束",
    beam_folded: "还有 {count} 个",
    state_best: "最佳",
    state_finished: "已完成",
    state_kept: "保留",
    state_dropped: "舍弃",
    glossary_is:
      "从{source}到{target}。原文出现左边的词，译文就必定包含右边的词。术语保存在本浏览器中，随每段文字发送；翻译文件时不用。",
    glossary_term: "术语",
    glossary_translation: "译法",
    glossary_remove: "删除术语{term}",
    glossary_add: "添加术语",
    glossary_twice: "同一术语不止一行，以最后一行为准。",
    history_keep: "在本浏览器中保留历史记录",
    history_clear: "清除历史记录",
    history_empty: "暂无记录。",
    history_off: "历史记录已关闭。",
    error_offline: "服务器没有响应。",
    error_refused: "服务器拒绝了这段文字。",
    error_key: "服务器需要有效的 API 密钥。",
    error_large: "文字太长，服务器不接受。",
    error_often: "请求过于频繁。",
    error_busy: "服务器繁忙。",
    error_failed: "服务器出错（状态码 {status}）。",
    error_broken: "译文中断，已收到的部分显示在上方。",
    error_wait: "请在 {seconds} 秒后重试。",
  },
};

let spoken = "en";

/** The language of the page, a key of TEXTS. */
export const language = () => spoken;

/** A text by its key; what stands in braces is replaced by `values`. */
export function text(key, values = {}) {
  return TEXTS[spoken][key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

export function put(element, key, values = {}) {
  element.dataset.text = key;
  element.dataset.values = JSON.stringify(values);
  element.textContent = text(key, values);
  return element;
}

export function label(element, key, values = {}) {
  element.dataset.label = key;
  element.dataset.values = JSON.stringify(values);
  element.setAttribute("aria-label", text(key, values));
  if (element.matches("button")) element.title = text(key, values);
  return element;
}

export function silence(element) {
  delete element.dataset.text;
  element.textContent = "";
}

export function speak(code) {
  spoken = code;
  document.documentElement.lang = code === "zh" ? "zh-CN" : code;
  document.title = text("title");
  const values = (element) => JSON.parse(element.dataset.values ?? "{}");
  for (const element of document.querySelectorAll("[data-text]")) put(element, element.dataset.text, values(element));
  for (const element of document.querySelectorAll("[data-label]"))
    label(element, element.dataset.label, values(element));
  for (const element of document.querySelectorAll("[data-placeholder]")) {
    element.placeholder = text(element.dataset.placeholder);
  }
}

/** A number formatted for the language of the page. */
export const number = (value, options = {}) => new Intl.NumberFormat(spoken, options).format(value);

export const percent = (share) => number(share, { style: "percent" });

/** The name of a language in the language of the page; `fallback` if the browser does not know it. */
export function nameOf(code, fallback) {
  try {
    return new Intl.DisplayNames([spoken], { type: "language", fallback: "none" }).of(code) ?? fallback;
  } catch {
    return fallback; // not a language code
  }
}
