//! Arguments against a tool's JSON Schema, with errors that a model can correct its call by.

use boon::{Compiler, SchemaIndex, Schemas, UrlLoader};
use serde_json::Value;
use std::fmt;

pub struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

/// A schema stands alone: what it refers to elsewhere is neither read from disk nor fetched.
struct Nothing;

impl UrlLoader for Nothing {
    fn load(&self, url: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err(format!("{url} is not read; put everything into the schema itself").into())
    }
}

impl Schema {
    pub fn new(schema: &Value) -> Result<Self, String> {
        const PLACE: &str = "urn:tool";
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.use_loader(Box::new(Nothing));
        compiler.add_resource(PLACE, schema.clone()).map_err(|error| error.to_string())?;
        let index = compiler.compile(PLACE, &mut schemas).map_err(|error| format!("{error:#}"))?;
        Ok(Self { schemas, index })
    }

    /// What does not fit, in words.
    pub fn check(&self, arguments: &Value) -> Result<(), String> {
        let Err(error) = self.schemas.validate(arguments, self.index) else { return Ok(()) };
        // The first line only says that it failed, and where the schema is.
        let text = format!("{error}");
        let lines: Vec<&str> = text.lines().skip(1).map(|line| line.trim().trim_start_matches("- ")).collect();
        Err(if lines.is_empty() { text } else { lines.join("; ") })
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_are_checked_and_mistakes_named() {
        let schema = json!({
            "type": "object", "required": ["type"],
            "properties": {"type": {"enum": ["unassigned", "vip"]}, "note": {"type": "string"}},
            "additionalProperties": false,
        });
        let schema = Schema::new(&schema).expect("valid");
        assert_eq!(schema.check(&json!({"type": "vip", "note": "客户"})), Ok(()));
        for (arguments, word) in [
            (json!({}), "type"),
            (json!({"type": 1}), "type"),
            (json!({"type": "vip", "x": 1}), "x"),
            (json!([]), "object"),
        ] {
            let refused = schema.check(&arguments).expect_err("does not fit");
            assert!(refused.contains(word) && !refused.contains("urn:"), "{refused}");
        }
    }

    #[test]
    fn a_schema_reaches_nothing_outside_itself() {
        for bad in [json!({"$ref": "file:///etc/passwd"}), json!({"$ref": "http://127.0.0.1/x"}), json!({"type": 5})] {
            assert!(Schema::new(&bad).is_err(), "{bad}");
        }
    }
}
