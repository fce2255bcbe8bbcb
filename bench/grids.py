"""The grids that choices.py runs: each a base recipe, a budget, and named variants as overrides of the base.

    budget        what every run gets: {"target_tokens": N}, </s> counted and padding not; {"steps": N}; or
                  {"epochs": N}, where variants cut text into other pieces, of which as many are not as much text
    variants      the first is what the others are compared with
    pairs         sizes of the training corpus; None is all of it
    seeds         of the runs, unless --seeds names others
    validations   in the course of a run, where a variant says no other; the best one counts
    curves        whether lines keep the training loss over the steps, to be drawn
    page          of the docs, if not benchmarks.md

Rates and factors are those that a person who makes the choice would take with it: an optimizer is not tried at the
rate of another one, and post-norm gets the longer warm-up that it needs.
"""

from typing import Any

TARGET_TOKENS = 4_000_000
"""Eight minutes of the base on two cores with native bf16."""

EPOCHS = 6.6
"""Of zh-en-50k; the base sees TARGET_TOKENS in them."""

COURSE_ONECYCLE = [
    "model.model_dim=256",
    "model.num_heads=8",
    "model.encoder_layers=4",
    "model.decoder_layers=4",
    "model.ff_dim=1024",
    "model.dropout=0.15",
    "model.tie=none",
    "model.output_bias=true",
    "model.positions=sinusoidal",
    "training.batch_sentences=48",
    "training.optimizer=adamw",
    "training.learning_rate=5e-4",
    "training.epsilon=1e-9",
    "training.schedule=onecycle",
    "training.warmup=0.1",
    "training.label_smoothing=0.08",
    "data.max_length=128",
]

NOAM_BASE = [
    "tokenizer.shared=true",
    "model.model_dim=512",
    "model.num_heads=8",
    "model.encoder_layers=6",
    "model.decoder_layers=6",
    "model.ff_dim=2048",
    "model.dropout=0.1",
    "model.norm=post",
    "model.tie=all",
    "model.positions=sinusoidal",
    "training.batch_tokens=4096",
    "training.optimizer=adam",
    "training.schedule=noam",
    "training.learning_rate=0.4",  # the peak of factor 1 and warm-up 2,000, which is longer than these runs
    "training.warmup=0.3",
    "training.clip_norm=inf",
]

CHARACTERS = [
    "tokenizer.kind=characters",
    "data.max_length=1024",  # no pair is dropped
    "decoding.max_length_ratio=8",  # English has three times as many characters as its Chinese, and more
]

USUAL: dict[str, Any] = {
    "budget": {"target_tokens": TARGET_TOKENS},
    "pairs": [None],
    "seeds": [1],
    "validations": 1,
    "curves": False,
}
"""Of a grid that says nothing else."""

OWN: dict[str, dict[str, Any]] = {
    "choices": {
        "base": "bench/base.toml",
        "variants": {
            "base": [],
            "adamw": ["training.optimizer=adamw", "training.learning_rate=1.5e-3"],
            "adamw, rate 7e-4": ["training.optimizer=adamw", "training.learning_rate=7e-4"],
            "adamw, rate 3e-3": ["training.optimizer=adamw", "training.learning_rate=3e-3"],
            "adam": ["training.optimizer=adam", "training.learning_rate=1.5e-3"],
            "sgd": ["training.optimizer=sgd", "training.learning_rate=0.3"],
            "adafactor": ["training.optimizer=adafactor", "training.learning_rate=0.02"],
            "rate 6e-3": ["training.learning_rate=6e-3"],
            "constant": ["training.schedule=constant", "training.learning_rate=1.5e-3"],
            "noam": ["training.schedule=noam", "training.learning_rate=0.4"],
            "inverse-sqrt": ["training.schedule=inverse-sqrt"],
            "cosine": ["training.schedule=cosine"],
            "linear": ["training.schedule=linear"],
            "plateau": [
                "training.schedule=plateau",
                "training.learning_rate=1.5e-3",
                "training.plateau_patience=0",
                "training.plateau_factor=0.5",
                "training.validate_every=40 steps",
            ],
            "ema to 0.992": ["training.ema_decay=0.999"],  # (1 + t) / (10 + t), for so short a run
            "mean of 5": ["training.average_last=5", "training.validate_every=40 steps"],
            "post-norm": ["model.norm=post", "training.warmup=0.2", "training.learning_rate=1.5e-3"],
            "rms-norm": ["model.norm_layer=rms"],
            "scaled-sinusoidal": ["model.positions=scaled-sinusoidal"],
            "learned positions": ["model.positions=learned", "model.max_positions=258"],
            "rotary": ["model.positions=rotary"],
            "elu": ["model.activation=elu"],
            "gelu": ["model.activation=gelu"],
            "silu": ["model.activation=silu"],
            "swiglu": ["model.activation=swiglu", "model.ff_dim=680"],  # as many parameters as the base
            "geglu": ["model.activation=geglu", "model.ff_dim=680"],
            "attention in 2 steps": ["model.attention_steps=2"],
            "learned beta": ["model.attention_beta=learned"],
            "2 steps, learned beta": ["model.attention_steps=2", "model.attention_beta=learned"],
            "untied": ["model.tie=none"],
            "r-drop 1": ["training.r_drop=1"],
            "smoothing 0": ["training.label_smoothing=0"],
            "dropout 0.1": ["model.dropout=0.1"],
            "weight decay 0.1": ["training.weight_decay=0.1"],
            "weight decay 0.5": ["training.weight_decay=0.5"],
        },
    },
    "recurrent": {
        "base": "bench/recurrent.toml",
        "budget": {"target_tokens": 2_600_000},  # seventeen minutes of the base on one core with native bf16
        "page": "recurrent.md",
        "variants": {
            "base": [],
            "no attention": ["model.attention=none"],
            "dot": ["model.attention=dot"],
            "scaled": ["model.attention=scaled"],
            "additive": ["model.attention=additive"],
            "input feeding": ["model.input_feeding=true"],
            "convolution of 2": ["model.convolution=2"],
            "coverage 0.5": ["model.coverage=0.5"],
            "copying": ["model.copying=true"],
            "scheduled sampling 0.1": ["model.scheduled_sampling=0.1"],
            "weight drop 0.2": ["model.weight_drop=0.2"],
            "weight decay 0.01": ["training.weight_decay=0.01"],
            "2+2 layers, residual": [
                "model.encoder_layers=2",
                "model.decoder_layers=2",
                "model.connections=residual",
            ],
            "gru": ["model.cell=gru"],
            "rnn": ["model.cell=rnn"],
            "adamw 2e-3": ["training.optimizer=adamw", "training.learning_rate=2e-3"],
            "batches of 3,072 tokens": ["training.batch_tokens=3072"],
        },
    },
    "precision": {
        "base": "bench/base.toml",
        "budget": {"steps": 1000},
        "seeds": [1, 2, 3],
        "curves": True,
        "variants": {
            "fp32": ["training.precision=fp32"],
            "bf16": ["training.precision=bf16"],
        },
    },
    "sizes": {
        "base": "bench/corpus.toml",
        "pairs": [5_000, 10_000, 20_000, 47_500],
        "validations": 10,
        "variants": {
            "by size": [],
            "weight decay 0.5": ["training.weight_decay=0.5"],
            "course-onecycle": COURSE_ONECYCLE,
            "noam-base": NOAM_BASE,
        },
    },
    "pieces": {
        "base": "bench/base.toml",
        "budget": {"epochs": EPOCHS},
        "variants": {
            "bpe, 8,000": [],
            "bpe, 8,000, copying": ["tokenizer.copying=true"],
            "bpe, 1,000": ["tokenizer.source_size=1000", "tokenizer.target_size=1000"],
            "bpe, 2,000": ["tokenizer.source_size=2000", "tokenizer.target_size=2000"],
            "bpe, 4,000": ["tokenizer.source_size=4000", "tokenizer.target_size=4000"],
            "bpe, 16,000": ["tokenizer.source_size=16000", "tokenizer.target_size=16000"],
            "bpe, 8,000 shared": ["tokenizer.shared=true"],
            "bpe, 16,000 shared": [
                "tokenizer.shared=true",
                "tokenizer.source_size=16000",
                "tokenizer.target_size=16000",
            ],
            "bpe, 16,000 shared, all tied": [
                "model.tie=all",
                "tokenizer.shared=true",
                "tokenizer.source_size=16000",
                "tokenizer.target_size=16000",
            ],
            "unigram, 8,000": ["tokenizer.kind=unigram"],
            "unigram, 8,000, sampled 0.2": ["tokenizer.kind=unigram", "augmentation.subword_sampling=0.2"],
            "wordpiece, 8,000": ["tokenizer.kind=wordpiece"],
            "words, 8,000": ["tokenizer.kind=words"],
            "characters": CHARACTERS,
        },
    },
    "pieces-in-full": {
        "base": "bench/zh-en-50k.toml",
        "budget": {"epochs": 24},
        "seeds": [1, 2, 3],
        "validations": 4,
        "variants": {
            "bpe, 8,000": [],
            "bpe, 8,000 shared": ["tokenizer.shared=true"],
            "words, 8,000": ["tokenizer.kind=words"],
            "unigram, 8,000": ["tokenizer.kind=unigram"],
        },
    },
    "augmentation": {
        "base": "bench/base.toml",
        "variants": {
            "none": [],
            "subword sampling 0.05": ["augmentation.subword_sampling=0.05"],
            "subword sampling 0.1": ["augmentation.subword_sampling=0.1"],
            "dropout by pad 0.5": ["augmentation.token_dropout=0.5"],
            "dropout by mask 0.5": ["augmentation.token_dropout=0.5", "augmentation.token_dropout_by=mask"],
            "dropout by delete 0.5": ["augmentation.token_dropout=0.5", "augmentation.token_dropout_by=delete"],
            "word order 0.1": ["augmentation.word_order=0.1"],
            "casing 0.1": ["augmentation.casing=0.1"],
            "punctuation 0.1": ["augmentation.punctuation=0.1"],
            "joining 0.1": ["augmentation.joining=0.1"],
        },
    },
}
GRIDS = {name: {**USUAL, **own} for name, own in OWN.items()}
