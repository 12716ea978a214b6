//! The floors. *floor*: the smallest axum handler that does one durable INSERT by group commit. *naive*: one
//! transaction per request.

use axum::{Router, extract::State, http::StatusCode, routing::post};
use rusqlite::{Connection, params};
use std::{path::Path, sync::mpsc};
use tokio::{net::TcpListener, sync::oneshot};

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Kind {
    Floor,
    Naive,
}

const GROUP_MAX: usize = 1024;

struct Insert {
    due: i64,
    body: String,
    done: oneshot::Sender<()>,
}

pub async fn serve(kind: Kind, dir: &Path) -> anyhow::Result<()> {
    let connection = open(&dir.join("baseline.db"))?;
    let (sender, inserts) = mpsc::channel::<Insert>();
    let group = match kind {
        Kind::Floor => GROUP_MAX,
        Kind::Naive => 1,
    };
    std::thread::spawn(move || write(&connection, &inserts, group));
    let router = Router::new().route("/insert", post(insert)).with_state(sender);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listens on http://{}", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}

async fn insert(State(inserts): State<mpsc::Sender<Insert>>, body: String) -> StatusCode {
    let (done, written) = oneshot::channel();
    let due = crate::seed::micros();
    if inserts.send(Insert { due, body, done }).is_err() || written.await.is_err() {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    StatusCode::OK
}

pub fn open(path: &Path) -> anyhow::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch(
        "CREATE TABLE timers (id INTEGER PRIMARY KEY, due INTEGER NOT NULL, body TEXT NOT NULL);
         CREATE INDEX timers_due ON timers (due);",
    )?;
    Ok(connection)
}

fn write(connection: &Connection, inserts: &mpsc::Receiver<Insert>, group: usize) {
    while let Ok(first) = inserts.recv() {
        connection.execute_batch("BEGIN IMMEDIATE").expect("begin");
        let mut written = Vec::new();
        for insert in std::iter::once(first).chain(inserts.try_iter().take(group - 1)) {
            let mut statement =
                connection.prepare_cached("INSERT INTO timers (due, body) VALUES (?1, ?2)").expect("prepare");
            statement.execute(params![insert.due, insert.body]).expect("insert");
            written.push(insert.done);
        }
        connection.execute_batch("COMMIT").expect("commit");
        written.into_iter().for_each(|done| {
            let _ = done.send(());
        });
    }
}
