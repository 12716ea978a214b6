//! A stand-in for model providers that does what the request's script says.
