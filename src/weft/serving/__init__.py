"""`weft serve`: translation over HTTP, by the APIs that existing clients speak.

A request passes these modules from top to bottom, its response comes back up:

    server.py                 the process: socket, signals, a shutdown that loses no request
    admission.py              which requests are answered, decided before a body is read; headers of every response
    app.py                    the application and its routes: START READING HERE
    libretranslate_api.py     LibreTranslate's API
    files_api.py              LibreTranslate's API for files
    openai_api.py             the part of OpenAI's API that a translator can answer
    weft_api.py               streams, explanations, alternatives at a word, reloading
    requests.py               fields of requests and their bounds, forms; refusals.py: responses to refused requests
    openapi.py                what /openapi.json adds to FastAPI's description
    service.py                what the routes share: which model answers, whose key is valid
    documents.py              files as texts: .txt and .srt; markdown_, html_ and word_document.py read the others
    word_archive.py           bounds against hostile Word documents
    translating.py            splits texts into sentences, translates them, joins the translations
    models.py                 the models, and replacing them without losing a request
    batching.py               sentences of all requests in batches; one thread for each model
    capacity.py               how much text is worked on at once

    limits.py, rates.py, keys.py, detection.py, metrics.py    bounds, request rates, API keys, languages, counts

It needs the extra [serve]. It never opens a checkpoint itself and handles no tensors.
"""
