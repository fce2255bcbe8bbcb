"""`weft serve`: translation over HTTP, by protocols that existing clients speak.

A request goes down this list, and what it waits for comes back up:

    server.py                 the process: sockets, signals, an end that loses nothing
    admission.py              who may come in, decided before a body is read; the headers of every answer
    app.py                    the routes: START READING HERE
    libretranslate_api.py     LibreTranslate's API
    files_api.py              LibreTranslate's API for files
    openai_api.py             the part of OpenAI's API that a translator can answer
    weft_api.py               streams, explanations, alternatives at a word, reloading
    reading.py                a body becomes a checked request (requests.py); refusals.py: what a refusal looks like
    openapi.py                what /openapi.json says of all this
    service.py                what the routes share: which model answers, who may ask
    documents.py              .txt, .md and .srt as texts; html_document.py and word_document.py the others
    translating.py            texts become sentences, sentences translations, translations texts again
    models.py                 which models there are; another one in the place of one without losing a request
    batching.py               sentences of all requests meet in batches; one thread a model
    room.py                   how much text is taken apart at once

    limits.py, keys.py, detection.py, metrics.py    what it is willing to do, who asks, in which language, how often

It needs the extra [serve]. It never opens a checkpoint itself and knows no tensor.
"""
