//! Opening a database of any version we ever wrote, and refusing all others untouched.

use super::failed;
use crate::{StoreError, shape::Shape};
use rusqlite::{Connection, ErrorCode, OptionalExtension};
use std::{fs, path::Path};

/// Each step brings the format one version further. Released steps are never edited.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001.sql"), include_str!("migrations/0002.sql")];

/// `RVLE`: marks the file as ours, for us and for `file(1)`.
const APPLICATION_ID: i64 = 0x5256_4c45;

pub fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let found = known_version(connection, path)?;
    for (step, sql) in MIGRATIONS.iter().enumerate().skip(found as usize) {
        let tx = connection.transaction().map_err(failed)?;
        tx.execute_batch(sql).map_err(failed)?;
        tx.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
        tx.pragma_update(None, "user_version", step as i64 + 1).map_err(failed)?;
        tx.commit().map_err(failed)?;
    }
    Ok(())
}

/// The format of a file that this version can read. Reads only.
pub fn known_version(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let (found, known) = (version(connection, path)?, MIGRATIONS.len() as i64);
    if found > known {
        return Err(StoreError::Newer { path: path.to_owned(), found, known });
    }
    // The forms between two releases bear the number of one of them.
    match released(found)?.difference(&shape(connection)?) {
        Some(difference) => Err(StoreError::Unreleased { path: path.to_owned(), found, difference }),
        None => Ok(found),
    }
}

/// The tables that the steps up to this format make.
fn released(format: i64) -> Result<Shape, StoreError> {
    let model = Connection::open_in_memory().map_err(failed)?;
    for sql in MIGRATIONS.iter().take(format as usize) {
        model.execute_batch(sql).map_err(failed)?;
    }
    shape(&model)
}

fn shape(connection: &Connection) -> Result<Shape, StoreError> {
    let sql = "SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c WHERE t.type = 'table'";
    let mut statement = connection.prepare(sql).map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    let mut shape = Shape::default();
    while let Some(row) = rows.next().map_err(failed)? {
        let (table, column): (String, String) = (row.get(0).map_err(failed)?, row.get(1).map_err(failed)?);
        shape.add(&table, &column);
    }
    Ok(shape)
}

/// The format of the file: 0 for a new one. Reads only, so that a foreign file is left as it is.
fn version(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    // Only a file that is no database at all is somebody else's; a damaged or locked one is not to be moved away.
    let not_ours = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => StoreError::NotOurs { path: path.to_owned() },
        _ => failed(error),
    };
    // To SQLite a file of one byte is an empty one, and it would write over whatever that is the rest of.
    if fs::metadata(path).is_ok_and(|file| file.len() == 1) {
        return Err(StoreError::NotOurs { path: path.to_owned() });
    }
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let application = pragma("application_id").map_err(not_ours)?;
    let version = pragma("user_version").map_err(not_ours)?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(not_ours)?;
    match application {
        APPLICATION_ID => Ok(version),
        0 if tables == 0 && version == 0 => Ok(0),
        _ => Err(StoreError::NotOurs { path: path.to_owned() }),
    }
}

/// The row of the server with this id, made if it is new. Without one: the database's own, made from `fresh` once.
pub fn server(connection: &Connection, wanted: Option<&str>, fresh: &str) -> Result<(i64, String), StoreError> {
    let own = || connection.query_row("SELECT value FROM meta WHERE key = 'server_id'", [], |row| row.get(0));
    let id: String = match wanted {
        Some(id) => id.to_owned(),
        None => match own().optional().map_err(failed)? {
            Some(id) => id,
            None => {
                connection
                    .execute("INSERT INTO meta (key, value) VALUES ('server_id', ?1)", [fresh])
                    .map_err(failed)?;
                fresh.to_owned()
            }
        },
    };
    connection.execute("INSERT OR IGNORE INTO servers (id) VALUES (?1)", [&id]).map_err(failed)?;
    let num = connection.query_row("SELECT num FROM servers WHERE id = ?1", [&id], |row| row.get(0)).map_err(failed)?;
    Ok((num, id))
}
