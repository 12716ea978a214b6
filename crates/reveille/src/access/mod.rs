//! Who may do what: tokens, what is kept of them, and the rights they give. Pure but for reading one file. How a request
//! carries a token, and what it asks for, is the doors' (`http/access.rs`, `http/permit.rs`).

mod book;
mod file;
mod grant;
mod hash;

pub use book::{Book, Pass};
pub use file::{Entry, Stamp, TokenFile, TokenFileError};
pub use grant::{Act, Grant, Scope};
pub use hash::{Hash, Proof};
