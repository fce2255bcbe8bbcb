"""The names of recipe keys in fairseq, OpenNMT, JoeyNMT, Marian and Hugging Face, mapped to weft's.

They are used only for hints in error messages, so a name that no recipe has does no harm.
"""

NAMES_HERE: dict[str, tuple[str, ...]] = {
    there: names
    for theirs, names in {
        "src src_lang source_lang": ("source",),
        "tgt trg tgt_lang trg_lang target_lang": ("target",),
        "dev val validation": ("valid",),
        "random_seed": ("seed",),
        "vocab_size vocabulary_size src_vocab_size": ("source_size", "target_size"),
        "share_vocab joint_dictionary joined_dictionary": ("shared",),
        "layers num_layers n_layers": ("encoder_layers", "decoder_layers"),
        "enc_layers": ("encoder_layers",),
        "dec_layers": ("decoder_layers",),
        "d_model dim dim_emb embed_dim hidden_size width": ("model_dim",),
        "d_ff dim_feedforward ff_size ffn_dim transformer_ff": ("ff_dim",),
        "attention_heads heads n_heads nhead": ("num_heads",),
        "share_embeddings tie_embeddings tied_embeddings tied_softmax": ("tie",),
        "base_lr lr max_lr": ("learning_rate",),
        "optim": ("optimizer",),
        "decay_method lr_scheduler scheduler scheduling": ("schedule",),
        "warmup_ratio warmup_steps warmup_updates": ("warmup",),
        "clip_grad_norm gradient_clipping grad_clip max_grad_norm": ("clip_norm",),
        "batch_size": ("batch_tokens", "batch_sentences"),
        "max_tokens": ("batch_tokens",),
        "accum_count gradient_accumulation_steps update_freq": ("accumulate",),
        "amp bf16 compute_dtype dtype fp16 use_amp": ("precision",),
        "max_epoch max_epochs num_epochs num_train_epochs": ("epochs",),
        "max_steps max_update max_updates num_steps train_steps": ("steps",),
        "eval_every eval_steps valid_freq valid_steps validation_freq": ("validate_every",),
        "save_every save_freq save_steps": ("checkpoint_every",),
        "early_stopping": ("patience",),
        "early_stopping_metric eval_metric": ("select_by",),
        "ema": ("ema_decay",),
        "beam n_beams num_beams": ("beam_size",),
        "beam_alpha lenpen length_alpha": ("length_power",),
        "no_repeat_ngram_size": ("no_repeat_ngram",),
    }.items()
    for there in theirs.split()
}
