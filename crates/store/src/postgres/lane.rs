//! A connection that comes back. Whoever asks while it is away waits for it, within a bound; many may ask at once, and
//! their statements travel without waiting for each other's answers.

use super::options::Target;
use crate::StoreError;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Mutex as AsyncMutex, time::Instant};
use tokio_postgres::{Client, Row, Statement, error::SqlState, types::ToSql};

/// Between tries to connect.
const RECONNECT_EVERY: Duration = Duration::from_millis(100);
/// A server that has not greeted us by then will not, or not soon enough.
const GREETING_MAX: Duration = Duration::from_secs(4);
/// An answer that is overdue by this much, beyond what the database allows a statement, will not come.
const ANSWER_MARGIN: Duration = Duration::from_secs(2);
/// A statement that was sent at the last moment is given this long: of a write that is cut off nobody knows what it did.
const ANSWER_MIN: Duration = Duration::from_secs(1);

pub type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

pub struct Lane {
    wait: Duration,
    answer_max: Duration,
    socket: Arc<Socket>,
}

/// Whether the database is away, as any of a store's lanes found it last.
#[derive(Clone, Default)]
pub struct Away(Arc<AtomicBool>);

impl Away {
    pub fn is(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, away: bool) {
        if self.is() != away {
            self.0.store(away, Ordering::Relaxed);
        }
    }
}

/// The place of the connection.
struct Socket {
    target: Target,
    away: Away,
    current: Mutex<Option<Arc<Live>>>,
    /// One connects at a time; the others wait for it.
    connecting: AsyncMutex<()>,
}

/// One connection and what was prepared on it.
pub struct Live {
    client: Client,
    statements: Mutex<HashMap<String, Statement>>,
}

/// What went wrong with a statement.
#[derive(Debug)]
pub enum Fault {
    /// The database refused it; the connection is good.
    Refused(tokio_postgres::Error),
    /// The connection is gone. Whether the statement was carried out is unknown.
    Lost(String),
    /// It was never sent.
    NotSent(StoreError),
}

impl Lane {
    pub fn new(target: Target, wait: Duration, statement_timeout: Duration, away: Away) -> Self {
        let socket = Arc::new(Socket { target, away, current: Mutex::default(), connecting: AsyncMutex::default() });
        Self { wait, answer_max: statement_timeout + ANSWER_MARGIN, socket }
    }

    /// Only reads: carried out again if the connection was lost under it.
    pub async fn read(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        let deadline = Instant::now() + self.wait;
        loop {
            match self.once(sql, params, deadline).await {
                Ok(rows) => return Ok(rows),
                Err(Fault::Lost(_)) if Instant::now() < deadline => {}
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    /// One try. Waits for a connection, not for a second one.
    pub async fn once(&self, sql: &str, params: Params<'_>, deadline: Instant) -> Result<Vec<Row>, Fault> {
        let live = self.live(deadline).await.map_err(Fault::NotSent)?;
        let sent = Instant::now();
        let until = deadline.max(sent + ANSWER_MIN).min(sent + self.answer_max);
        let answer = tokio::time::timeout_at(until, live.query(sql, params)).await;
        // A connection that broke says nothing yet; whether another can be made does.
        match &answer {
            Ok(Ok(_) | Err(Fault::Refused(_))) => self.socket.away.set(false),
            Err(_) => self.socket.away.set(true),
            Ok(Err(_)) => {}
        }
        let fault = match answer {
            Ok(Ok(rows)) => return Ok(rows),
            Ok(Err(fault)) => fault,
            Err(_) => Fault::Lost("it does not answer".into()),
        };
        if matches!(fault, Fault::Lost(_)) {
            // Statements that are under way on it keep it until they are over.
            self.socket.drop_if_current(&live);
        }
        Err(fault)
    }

    /// Waits until there is a connection.
    pub async fn ready(&self, deadline: Instant) -> Result<(), StoreError> {
        self.live(deadline).await.map(drop)
    }

    async fn live(&self, deadline: Instant) -> Result<Arc<Live>, StoreError> {
        if let Some(live) = self.socket.live() {
            return Ok(live);
        }
        // In a task of its own, so that whoever gives up waiting does not keep the others from it.
        let socket = self.socket.clone();
        let connecting = tokio::spawn(async move { socket.connect(deadline).await });
        match tokio::time::timeout_at(deadline, connecting).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => Err(StoreError::Failed(error.to_string())),
            Err(_) => Err(StoreError::Unavailable("it does not answer".into())),
        }
    }

    pub fn close(&self) {
        self.socket.current().take();
    }
}

impl Socket {
    fn current(&self) -> MutexGuard<'_, Option<Arc<Live>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> Option<Arc<Live>> {
        self.current().as_ref().filter(|live| !live.client.is_closed()).cloned()
    }

    async fn connect(&self, deadline: Instant) -> Result<Arc<Live>, StoreError> {
        let _turn = self.connecting.lock().await;
        loop {
            if let Some(live) = self.live() {
                return Ok(live);
            }
            if Instant::now() >= deadline {
                // Whoever wanted it has given up, while others tried.
                return Err(NoConnection::Silent.into());
            }
            let connected = connect(&self.target).await;
            self.away.set(connected.as_ref().is_err_and(NoConnection::passes));
            match connected {
                Ok(client) => {
                    let live = Arc::new(Live { client, statements: Mutex::default() });
                    *self.current() = Some(live.clone());
                    return Ok(live);
                }
                Err(error) if !error.passes() || Instant::now() + RECONNECT_EVERY > deadline => {
                    return Err(error.into());
                }
                Err(_) => tokio::time::sleep(RECONNECT_EVERY).await,
            }
        }
    }

    fn drop_if_current(&self, lost: &Arc<Live>) {
        let mut current = self.current();
        if current.as_ref().is_some_and(|live| Arc::ptr_eq(live, lost)) {
            *current = None;
        }
    }
}

impl Live {
    async fn query(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        let known = self.statements.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        let statement = match known {
            Some(statement) => statement,
            None => {
                let statement = self.client.prepare(sql).await.map_err(|error| self.fault(error))?;
                let mut statements = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
                statements.insert(sql.to_owned(), statement.clone());
                statement
            }
        };
        self.client.query(&statement, params).await.map_err(|error| self.fault(error))
    }

    fn fault(&self, error: tokio_postgres::Error) -> Fault {
        // A server that shuts down, or no longer takes writes, is as good as gone: another host may serve.
        let leaves = error.code().is_some_and(|code| {
            *code == SqlState::ADMIN_SHUTDOWN
                || *code == SqlState::CRASH_SHUTDOWN
                || *code == SqlState::CANNOT_CONNECT_NOW
                || *code == SqlState::READ_ONLY_SQL_TRANSACTION
        });
        let broke = error.is_closed() || self.client.is_closed() || is_io(&error);
        if leaves || broke { Fault::Lost(words(&error)) } else { Fault::Refused(error) }
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub enum NoConnection {
    Refused(tokio_postgres::Error),
    /// Something took the connection and never spoke.
    Silent,
}

impl NoConnection {
    /// Whether trying again can help.
    pub fn passes(&self) -> bool {
        let NoConnection::Refused(error) = self else { return true };
        let Some(code) = error.code() else { return !is_tls(error) };
        !(code.code().starts_with("28") || code.code().starts_with("3D"))
    }
}

impl From<NoConnection> for StoreError {
    fn from(error: NoConnection) -> Self {
        match error {
            NoConnection::Refused(error) => refusal(error),
            NoConnection::Silent => StoreError::Unavailable("it does not answer".into()),
        }
    }
}

/// A new connection, with our settings.
pub async fn connect(target: &Target) -> Result<Client, NoConnection> {
    let connecting = async {
        let (client, connection) = target.config.connect(target.tls.clone()).await?;
        // Ends with the client.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the database ended");
            }
        });
        prepare(&client, target).await?;
        Ok(client)
    };
    match tokio::time::timeout(GREETING_MAX, connecting).await {
        Ok(connected) => connected.map_err(NoConnection::Refused),
        Err(_) => Err(NoConnection::Silent),
    }
}

pub async fn prepare(client: &Client, target: &Target) -> Result<(), tokio_postgres::Error> {
    for setting in target.settings.split(';') {
        match client.batch_execute(setting).await {
            Err(error) if error.code().is_some_and(unknown_setting) => {}
            done => done?,
        }
    }
    Ok(())
}

/// Databases that only speak PostgreSQL's language need not have its settings.
fn unknown_setting(code: &SqlState) -> bool {
    [SqlState::UNDEFINED_OBJECT, SqlState::INVALID_PARAMETER_VALUE, SqlState::FEATURE_NOT_SUPPORTED].contains(code)
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused(error) if error.code().is_none() => StoreError::Failed(words(&error)),
            Fault::Refused(error) => refusal(error),
            Fault::Lost(why) => StoreError::Unavailable(why),
            Fault::NotSent(error) => error,
        }
    }
}

pub fn refusal(error: tokio_postgres::Error) -> StoreError {
    let why = words(&error);
    match error.code() {
        None => StoreError::Unavailable(why),
        Some(code) if *code == SqlState::DISK_FULL => StoreError::Full,
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Unwritable(why),
        Some(code) if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
            StoreError::Damaged(why)
        }
        // Connections, resources, interventions, conflicts with others: all of them pass.
        Some(code) if ["08", "53", "55", "57", "40", "25"].contains(&&code.code()[..2]) => StoreError::Unavailable(why),
        Some(_) => StoreError::Failed(why),
    }
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}

/// The two do not trust each other, which waiting does not mend.
fn is_tls(error: &tokio_postgres::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        let wrapped = inner.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if inner.is::<rustls::Error>() || wrapped.is_some_and(|wrapped| wrapped.is::<rustls::Error>()) {
            return true;
        }
        source = inner.source();
    }
    false
}

/// The error and what it comes from, in one line.
pub fn words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    text
}
