//! The tables and columns of a database, to tell the formats that were released from the forms between them, which bear
//! the same numbers.

use std::collections::{BTreeMap, BTreeSet};

/// Differences named in a refusal; more are left out.
const NAMED_MAX: usize = 3;

/// Columns by table. Their order means nothing: a later step can only add at the end.
#[derive(Debug, Default)]
pub struct Shape(BTreeMap<String, BTreeSet<String>>);

impl Shape {
    pub fn add(&mut self, table: &str, column: &str) {
        self.0.entry(table.to_owned()).or_default().insert(column.to_owned());
    }

    /// What is wrong with `found`, in words. Tables of others beside ours are none of our business.
    pub fn difference(&self, found: &Shape) -> Option<String> {
        let mut wrong = Vec::new();
        for (table, columns) in &self.0 {
            let Some(there) = found.0.get(table) else {
                wrong.push(format!("no table {table}"));
                continue;
            };
            wrong.extend(columns.difference(there).map(|column| format!("no column {table}.{column}")));
            wrong.extend(there.difference(columns).map(|column| format!("a column {table}.{column}")));
        }
        let more = wrong.len().saturating_sub(NAMED_MAX);
        wrong.truncate(NAMED_MAX);
        if more > 0 {
            wrong.push(format!("{more} more"));
        }
        (!wrong.is_empty()).then(|| wrong.join(", "))
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Shape {
    fn from_iter<T: IntoIterator<Item = (&'a str, &'a str)>>(columns: T) -> Self {
        let mut shape = Self::default();
        for (table, column) in columns {
            shape.add(table, column);
        }
        shape
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named_and_other_peoples_tables_are_not() {
        let expected: Shape = [("items", "id"), ("items", "due"), ("hours", "hour")].into_iter().collect();
        let same: Shape = [("hours", "hour"), ("items", "due"), ("items", "id"), ("mine", "x")].into_iter().collect();
        assert_eq!(expected.difference(&same), None);
        let other: Shape = [("items", "id"), ("items", "awaits")].into_iter().collect();
        let said = expected.difference(&other);
        assert_eq!(said.as_deref(), Some("no table hours, no column items.due, a column items.awaits"));
        let none = Shape::default();
        let many: Shape = [("a", "x"), ("b", "x"), ("c", "x"), ("d", "x"), ("e", "x")].into_iter().collect();
        assert_eq!(many.difference(&none).as_deref(), Some("no table a, no table b, no table c, 2 more"));
    }
}
