//! The client: the port's operations as requests of the Iceberg REST protocol.
//!
//! It holds nothing but a connection pool and what the catalog said about itself, which is asked for at first use and
//! asked again after a failure. Reads are tried again; creations and commits are sent once, see [`crate::CommitOutcome`].

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use iceberg::{NamespaceIdent, TableIdent};
use iceberg_catalog_rest::{CreateNamespaceRequest, CreateTableRequest};
use icefall_clock::{Clock, Entropy};
use reqwest::Url;
use serde::Serialize;
use tokio::sync::OnceCell;
use tracing::{info, warn};

use crate::answer::Answer;
use crate::config::{CatalogConfig, Limits, ServerConfig};
use crate::dialect::Dialect;
use crate::error::{CatalogError, Operation, Reason};
use crate::retry::{Progress, Repeatable, wait};
use crate::route::{Base, RouteError, Routes};
use crate::transport::{Failure, Request, Transport};
use crate::wire::{self, TablesPage, WireError};
use crate::{
    Catalog, Commit, CommitOutcome, LoadedTable, Namespace, NewTable, Snapshots, StorageCredentials,
};

/// The id of a new table's partition spec.
const FIRST_SPEC_ID: i32 = 0;

/// A catalog behind the Iceberg REST protocol.
#[derive(Debug)]
pub struct RestCatalog {
    base: Base,
    warehouse: String,
    limits: Limits,
    vended_credentials: bool,
    dialect: &'static Dialect,
    transport: Transport,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    session: OnceCell<Session>,
}

/// What the catalog's own configuration settles.
#[derive(Debug)]
struct Session {
    routes: Routes,
    honours_idempotency: bool,
    has_credentials: bool,
}

impl RestCatalog {
    /// A client of the catalog that `config` names. Nothing is sent yet.
    pub fn new(
        config: CatalogConfig,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, CatalogError> {
        let (warehouse, limits, vended_credentials) =
            (config.warehouse.clone(), config.limits, config.vended_credentials);
        let fault = |message: String| {
            CatalogError::Misconfigured(Reason::new(Operation::LoadConfig, warehouse.clone(), message))
        };
        let base = Base::parse(&config.uri).map_err(|error| fault(error.to_string()))?;
        let transport = Transport::new(config, &base, Arc::clone(&clock)).map_err(fault)?;
        let (dialect, session) = (transport.dialect(), OnceCell::new());
        Ok(Self { base, warehouse, limits, vended_credentials, dialect, transport, clock, entropy, session })
    }

    /// What the catalog said about itself; asked for until it has answered once.
    async fn session(&self) -> Result<&Session, CatalogError> {
        self.session.get_or_try_init(|| self.open()).await
    }

    async fn open(&self) -> Result<Session, CatalogError> {
        let subject = self.warehouse.clone();
        let url = located(Operation::LoadConfig, &subject, self.base.config(&self.warehouse))?;
        let request = Request::get(Operation::LoadConfig, subject, url);
        let answer = self.read(&request).await?;
        let server: ServerConfig = serde_json::from_slice(&answer.body)
            .map_err(|error| malformed(&request, &answer, &WireError::from(error)))?;
        info!(prefix = server.prefix(), idempotency = server.honours_idempotency(), "catalog configured");
        Ok(Session {
            routes: Routes::new(self.base.clone(), &server),
            honours_idempotency: server.honours_idempotency(),
            has_credentials: server.has_credentials(),
        })
    }

    /// Sends what changes nothing, again if need be.
    async fn read(&self, request: &Request) -> Result<Answer, CatalogError> {
        self.send(request, Repeatable::Always).await
    }

    /// Sends `request` as often as it may be, and once more when a refusal could be put right: a refused request has
    /// changed nothing.
    async fn send(&self, request: &Request, repeatable: Repeatable) -> Result<Answer, CatalogError> {
        let started = self.clock.now();
        let (mut tries, mut corrected) = (0, false);
        loop {
            let Failure { error, retry_after, refused } = match self.transport.send(request).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if let Some(refused) = refused.filter(|_| !corrected)
                && self.transport.correct(&refused).await
            {
                corrected = true;
                warn!(%error, "trying again with what is newer");
                continue;
            }
            tries += 1;
            let progress = Progress { tries, elapsed: self.clock.now().since(started), retry_after };
            let next = wait(&self.limits, repeatable, &error, progress, self.entropy.as_ref());
            let Some(pause) = next else { return Err(error) };
            warn!(%error, tries, ?pause, "trying again");
            self.clock.sleep(pause).await;
        }
    }

    /// Loads with these snapshots, or with all where the catalog can't do otherwise.
    async fn load(&self, table: &TableIdent, snapshots: Snapshots) -> Result<LoadedTable, CatalogError> {
        let parameters: &[(&str, &str)] = match snapshots {
            Snapshots::Refs if self.dialect.loads_refs => &[("snapshots", "refs")],
            _ => &[],
        };
        let subject = table.to_string();
        let url = self.session().await?.routes.table(table, parameters);
        let url = located(Operation::LoadTable, &subject, url)?;
        let mut request = Request::get(Operation::LoadTable, subject, url);
        request.with_credentials = self.vended_credentials;
        let answer = self.read(&request).await?;
        wire::table(&answer.body).map_err(|error| malformed(&request, &answer, &error))
    }

    fn creation(&self, table: &TableIdent, new: &NewTable, url: Url) -> Result<Request, CatalogError> {
        let subject = table.to_string();
        if self.dialect.requires_location && new.location.is_none() {
            let message = "this catalog wants the location of a new table";
            let reason = Reason::new(Operation::CreateTable, subject, message);
            return Err(CatalogError::Misconfigured(reason));
        }
        let body = CreateTableRequest {
            name: table.name().to_owned(),
            location: new.location.clone(),
            schema: new.schema.clone(),
            // Iceberg's Java code, and so every catalog built on it, can't read a spec without its id.
            partition_spec: Some(new.partition_spec.clone().with_spec_id(FIRST_SPEC_ID)),
            write_order: None,
            stage_create: Some(false),
            properties: new.properties.clone().into_iter().collect(),
        };
        let body = encoded(Operation::CreateTable, &subject, &body)?;
        let mut request = Request::post(Operation::CreateTable, subject, url, body);
        request.with_credentials = self.vended_credentials;
        Ok(request)
    }

    async fn committed(&self, table: &TableIdent, commit: &Commit) -> Result<LoadedTable, CatalogError> {
        let subject = table.to_string();
        let body = commit.body().map_err(|error| unencodable(Operation::Commit, &subject, &error))?;
        let session = self.session().await.map_err(unsent)?;
        let url = located(Operation::Commit, &subject, session.routes.table(table, &[]))?;
        let mut request = Request::post(Operation::Commit, subject, url, body);
        request.idempotency_key = session.honours_idempotency.then(|| commit.key());
        let answer = self.send(&request, Repeatable::IfNothingWasSent).await?;
        let answered = wire::table(&answer.body).map_err(|error| malformed(&request, &answer, &error))?;
        if commit.shown_by(&answered.metadata) {
            return Ok(answered);
        }
        let message = "the answer's metadata doesn't show the commit";
        Err(CatalogError::Unavailable(Reason { status: Some(answer.status), ..request.reason(message) }))
    }
}

#[async_trait]
impl Catalog for RestCatalog {
    async fn load_table(
        &self,
        table: &TableIdent,
        snapshots: Snapshots,
    ) -> Result<LoadedTable, CatalogError> {
        match self.load(table, snapshots).await {
            // The parameter is optional for servers, and one may refuse instead of ignoring it.
            Err(CatalogError::Rejected(_)) if snapshots == Snapshots::Refs && self.dialect.loads_refs => {
                self.load(table, Snapshots::All).await
            }
            result => result,
        }
    }

    async fn create_table(&self, table: &TableIdent, new: &NewTable) -> Result<LoadedTable, CatalogError> {
        let url = self.session().await?.routes.tables(table.namespace(), &[]);
        let url = located(Operation::CreateTable, &table.to_string(), url)?;
        let request = self.creation(table, new, url)?;
        let answer = self.send(&request, Repeatable::IfNothingWasSent).await?;
        match wire::table(&answer.body) {
            Ok(created) => Ok(created),
            // Created, with an answer that doesn't hold it.
            Err(_) => self.load(table, Snapshots::All).await,
        }
    }

    async fn commit(&self, table: &TableIdent, commit: &Commit) -> CommitOutcome {
        match self.committed(table, commit).await {
            Ok(answered) => CommitOutcome::Committed(Box::new(answered)),
            Err(failure) => CommitOutcome::from_failure(failure),
        }
    }

    /// From the endpoint for them where the catalog has it; else the table is loaded, which brings them too.
    async fn storage_credentials(&self, table: &TableIdent) -> Result<Vec<StorageCredentials>, CatalogError> {
        let session = self.session().await?;
        if !session.has_credentials {
            return self.load_table(table, Snapshots::Refs).await.map(|loaded| loaded.credentials());
        }
        let subject = table.to_string();
        let url = located(Operation::LoadCredentials, &subject, session.routes.credentials(table))?;
        let request = Request::get(Operation::LoadCredentials, subject, url);
        let answer = self.read(&request).await?;
        wire::credentials(&answer.body).map_err(|error| malformed(&request, &answer, &error))
    }

    async fn create_namespace(&self, namespace: &NamespaceIdent) -> Result<(), CatalogError> {
        let subject = namespace.join(".");
        let url = self.session().await?.routes.namespaces();
        let url = located(Operation::CreateNamespace, &subject, url)?;
        let body = CreateNamespaceRequest { namespace: namespace.clone(), properties: HashMap::new() };
        let body = encoded(Operation::CreateNamespace, &subject, &body)?;
        let request = Request::post(Operation::CreateNamespace, subject, url, body);
        self.send(&request, Repeatable::IfNothingWasSent).await.map(|_| ())
    }

    async fn load_namespace(&self, namespace: &NamespaceIdent) -> Result<Namespace, CatalogError> {
        let subject = namespace.join(".");
        let url = self.session().await?.routes.namespace(namespace);
        let url = located(Operation::LoadNamespace, &subject, url)?;
        let request = Request::get(Operation::LoadNamespace, subject, url);
        let answer = self.read(&request).await?;
        wire::namespace(&answer.body, namespace).map_err(|error| malformed(&request, &answer, &error))
    }

    async fn list_tables(&self, namespace: &NamespaceIdent) -> Result<Vec<TableIdent>, CatalogError> {
        let mut tables = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let (page, next) = self.page_of_tables(namespace, token.as_deref()).await?;
            tables.extend(page);
            // A server that names the same page for ever would keep us here.
            if next.is_none() || next == token {
                return Ok(tables);
            }
            token = next;
        }
    }
}

impl RestCatalog {
    async fn page_of_tables(
        &self,
        namespace: &NamespaceIdent,
        token: Option<&str>,
    ) -> Result<(Vec<TableIdent>, Option<String>), CatalogError> {
        let subject = namespace.join(".");
        let parameters: Vec<_> = token.map(|token| ("pageToken", token)).into_iter().collect();
        let url = self.session().await?.routes.tables(namespace, &parameters);
        let url = located(Operation::ListTables, &subject, url)?;
        let request = Request::get(Operation::ListTables, subject, url);
        let answer = self.read(&request).await?;
        let mut page =
            TablesPage::read(&answer.body).map_err(|error| malformed(&request, &answer, &error))?;
        Ok((std::mem::take(&mut page.identifiers), page.next()))
    }
}

fn located(operation: Operation, subject: &str, url: Result<Url, RouteError>) -> Result<Url, CatalogError> {
    url.map_err(|error| CatalogError::Misconfigured(Reason::new(operation, subject, error.to_string())))
}

fn encoded(operation: Operation, subject: &str, body: &impl Serialize) -> Result<Vec<u8>, CatalogError> {
    serde_json::to_vec(body).map_err(|error| unencodable(operation, subject, &error))
}

fn unencodable(operation: Operation, subject: &str, error: &serde_json::Error) -> CatalogError {
    let message = format!("the request can't be written as JSON: {error}");
    CatalogError::Rejected(Reason::new(operation, subject, message))
}

fn malformed(request: &Request, answer: &Answer, error: &WireError) -> CatalogError {
    let reason = Reason { status: Some(answer.status), ..request.reason(error.to_string()) };
    CatalogError::Malformed(reason)
}

/// A commit for which not even the configuration could be read: it was not sent, whatever happened to that.
fn unsent(error: CatalogError) -> CatalogError {
    match error {
        CatalogError::Unavailable(reason) | CatalogError::Malformed(reason) => {
            CatalogError::Unreachable(reason)
        }
        other => other,
    }
}
