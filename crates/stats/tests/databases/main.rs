//! Recorders and readers against real databases: SQLite, MariaDB and PostgreSQL.

#![allow(clippy::unwrap_used, reason = "the helpers are tests, too")]

mod documented;
mod engines;
mod full;
mod model;
mod outages;
mod scenario;
mod wire;

use engines::Sqlite;
use larder_testkit::databases::Server;

#[test]
fn sqlite() {
    let sqlite = Sqlite::new();
    scenario::all(&sqlite);
    scenario::the_file_is_for_its_user_alone(&sqlite);
    scenario::a_file_gives_back_what_it_does_not_need(&sqlite);
    scenario::a_file_stays_within_its_size(&sqlite);
    documented::all(&sqlite);
}

#[test]
fn mariadb() {
    let mut server = Server::mariadb();
    scenario::all(&server);
    documented::all(&server);
    outages::all(&mut server);
}

#[test]
fn postgres() {
    let mut server = Server::postgres();
    scenario::all(&server);
    documented::all(&server);
    outages::all(&mut server);
}
