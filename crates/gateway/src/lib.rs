//! Three LLM wire protocols relayed byte for byte.
