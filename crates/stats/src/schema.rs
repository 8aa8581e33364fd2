//! The schema and its versions. A database is migrated to the latest version when it is opened for writing.

use crate::connection::{Connection, Value};
use crate::failure::Failure;
use crate::outcome::OUTCOMES;

/// The steps from each version to the next. Each can be repeated, since not every database rolls back an
/// incomplete one.
const MIGRATIONS: &[&str] = &[
    include_str!("schema.sql"),
    // Before this version, validated requests were counted as misses.
    "ALTER TABLE outcomes {add_column} validated BIGINT NOT NULL DEFAULT 0",
    // Before this version, the HTTP version was not recorded.
    "ALTER TABLE transactions {add_column} http_version VARCHAR(32) NOT NULL DEFAULT ''",
    // Before this version, predictions were not recorded.
    "CREATE TABLE IF NOT EXISTS predictions (
        hour BIGINT NOT NULL,
        instance VARCHAR(64) NOT NULL,
        tier VARCHAR(32) NOT NULL,
        policy VARCHAR(128) NOT NULL,
        size BIGINT NOT NULL,
        requests BIGINT NOT NULL,
        hits BIGINT NOT NULL,
        hits_error BIGINT NOT NULL,
        bytes BIGINT NOT NULL,
        bytes_from_cache BIGINT NOT NULL,
        running BIGINT NOT NULL,
        PRIMARY KEY (hour, instance, tier, policy, size)
    ){storage}",
];

/// The version that this program supports.
pub(crate) const VERSION: i64 = MIGRATIONS.len() as i64;

const FIND: &str = "SELECT version FROM larder_schema";

/// Creates or changes the tables as needed.
pub(crate) async fn migrate(connection: &mut Connection) -> Result<(), Failure> {
    // The first check needs no lock, and no rights beyond those for writing.
    if version(connection).await?.is_some_and(|found| found == VERSION) {
        return Ok(());
    }
    connection.lock_schema().await?;
    let create = "CREATE TABLE IF NOT EXISTS larder_schema (version BIGINT NOT NULL)";
    connection.run(create).await?;
    // Another writer may have migrated the database meanwhile.
    let found = version(connection).await?.unwrap_or(0);
    for migration in MIGRATIONS.iter().skip(found as usize) {
        for statement in migration.split(';').filter(|statement| !statement.trim().is_empty()) {
            let statement = connection.translate(statement);
            match connection.run(&statement).await {
                // Added by an interrupted earlier migration.
                Err(failure) if failure.is_about_a_known_column() => {}
                run => run?,
            }
        }
    }
    if found < VERSION {
        fill_outcomes(connection).await?;
        connection.run("DELETE FROM larder_schema").await?;
        connection.run(&format!("INSERT INTO larder_schema VALUES ({VERSION})")).await?;
    }
    connection.unlock_schema().await
}

/// Fails unless the tables have the supported version.
pub(crate) async fn check(connection: &mut Connection) -> Result<(), Failure> {
    match version(connection).await? {
        Some(VERSION) => Ok(()),
        Some(found) if found > 0 => Err(Failure::Earlier(found)),
        _ => Err(Failure::Empty),
    }
}

/// Returns the version of the tables; `None` if there are none.
async fn version(connection: &mut Connection) -> Result<Option<i64>, Failure> {
    let found = match connection.number(FIND).await {
        Err(failure) if failure.is_missing_table() => None,
        found => found?,
    };
    match found {
        Some(found) if !(0..=VERSION).contains(&found) => Err(Failure::Later { found, known: VERSION }),
        found => Ok(found),
    }
}

async fn fill_outcomes(connection: &mut Connection) -> Result<(), Failure> {
    connection.run("DELETE FROM outcomes").await?;
    let flag = |is| Value::Figure(Some(i64::from(is)));
    let rows = OUTCOMES.iter().flat_map(|outcome| {
        let flags = [outcome.is_hit, outcome.is_validated, outcome.is_miss, outcome.from_cache].map(flag);
        std::iter::once(Value::Text(outcome.word)).chain(flags)
    });
    let columns = ["outcome", "hit", "validated", "miss", "from_cache"];
    connection.append("outcomes", &columns, &rows.collect::<Vec<_>>()).await
}
