//! The answers of the services: the input is a method, a path and a content, the output a status and JSON.
//!
//! Every answer has `versions`: of all data that it was built from, or, for a write, of all data that it has changed.

use std::path::Path;

use larder_lab::workload::{KINDS, Method};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::database::{Database, WriteResult};

/// The services, each with its database. The services for paths and skills read that of users.
pub(super) struct Services {
    users: Database,
    paths: Database,
    skills: Database,
}

/// An answer.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Value,
}

/// The target of a request.
#[derive(Clone, Copy)]
struct Target<'p> {
    kind: &'static str,
    /// The number; `None` for the collection.
    id: Option<u32>,
    part: &'p str,
}

/// The content of a write.
#[derive(Deserialize)]
struct Words {
    #[serde(default)]
    name: String,
    description: String,
}

type Outcome = rusqlite::Result<Reply>;

impl Services {
    /// Creates the databases in a folder, with `count` rows each.
    pub(super) fn create(folder: &Path, count: u32) -> rusqlite::Result<Self> {
        let create = |kind: &str| Database::create(&folder.join(format!("{kind}.db")), kind, count);
        Ok(Self { users: create("users")?, paths: create("paths")?, skills: create("skills")? })
    }

    /// Answers a request.
    pub(super) fn answer(&self, method: Method, path: &str, content: &[u8]) -> Reply {
        let Some(target) = target(path) else { return complaint(404, "no such route") };
        let words = serde_json::from_slice::<Words>(content);
        let outcome = match (method, target.id, words) {
            (Method::Get, Some(id), _) => self.show(target, id),
            (Method::Get, None, _) => self.list(target),
            (Method::Delete, Some(id), _) if target.part.is_empty() => self.remove(target, id),
            (Method::Post, None, Ok(words)) => self.add(target, &words),
            (Method::Put, Some(id), Ok(words)) if target.part.is_empty() => self.replace(target, id, &words),
            (Method::Patch, Some(id), Ok(words)) if target.part.is_empty() => {
                self.describe(target, id, &words)
            }
            (Method::Post | Method::Put | Method::Patch, _, Err(error)) => {
                Ok(complaint(400, &error.to_string()))
            }
            _ => Ok(complaint(405, "not of this")),
        };
        outcome.unwrap_or_else(|error| complaint(500, &error.to_string()))
    }

    fn database(&self, kind: &str) -> &Database {
        match kind {
            "paths" => &self.paths,
            "skills" => &self.skills,
            _ => &self.users,
        }
    }

    fn show(&self, target: Target<'_>, id: u32) -> Outcome {
        let Target { kind, part, .. } = target;
        let Some(row) = self.database(kind).row(id)? else {
            return Ok(complaint(404, "there never was one"));
        };
        let mut versions = Map::from_iter([(format!("{kind}/{id}"), row.version.into())]);
        if row.is_gone {
            return Ok(Reply { status: 404, body: json!({"error": "it was removed", "versions": versions}) });
        }
        let mut body = json!({"id": id, "name": row.name});
        match part {
            "" | "info" => {
                body["description"] = row.description.into();
                // This couples the services: the answers of one contain data of another.
                if kind != "users" {
                    body["user"] = self.user(row.user, &mut versions)?;
                }
            }
            _ => body[part] = (1..=5).map(|place| id * 7 + place).collect(),
        }
        body["versions"] = versions.into();
        Ok(Reply { status: 200, body })
    }

    /// Returns the data of a user in other answers; null for a removed user.
    fn user(&self, id: u32, versions: &mut Map<String, Value>) -> rusqlite::Result<Value> {
        let Some(user) = self.users.row(id)? else { return Ok(Value::Null) };
        versions.insert(format!("users/{id}"), user.version.into());
        Ok(if user.is_gone { Value::Null } else { json!({"id": id, "name": user.name}) })
    }

    fn list(&self, Target { kind, .. }: Target<'_>) -> Outcome {
        let (version, members) = self.database(kind).latest()?;
        let members: Vec<_> = members.into_iter().map(|(id, name)| json!({"id": id, "name": name})).collect();
        Ok(Reply { status: 200, body: json!({"latest": members, "versions": {kind: version}}) })
    }

    fn add(&self, Target { kind, .. }: Target<'_>, words: &Words) -> Outcome {
        let written = self.database(kind).add(&words.name, &words.description, 1)?;
        Ok(made(201, kind, written))
    }

    fn replace(&self, Target { kind, .. }: Target<'_>, id: u32, words: &Words) -> Outcome {
        let written = self.database(kind).replace(id, &words.name, &words.description)?;
        Ok(made(200, kind, written))
    }

    fn describe(&self, Target { kind, .. }: Target<'_>, id: u32, words: &Words) -> Outcome {
        Ok(made(200, kind, self.database(kind).describe(id, &words.description)?))
    }

    fn remove(&self, Target { kind, .. }: Target<'_>, id: u32) -> Outcome {
        Ok(made(200, kind, self.database(kind).remove(id)?))
    }
}

/// Returns the kind from the first part of a path, the number that may follow, and the part of that member to read.
fn target(path: &str) -> Option<Target<'_>> {
    let mut parts = path.strip_prefix('/')?.splitn(3, '/');
    let first = parts.next()?;
    let &(kind, known) = KINDS.iter().find(|(kind, _)| *kind == first)?;
    let id = parts.next().map(str::parse).transpose().ok()?;
    let part = parts.next().unwrap_or_default();
    let is_known = known.iter().any(|known| known.strip_prefix('/').unwrap_or_default() == part);
    (is_known && id.is_none_or(|id| id > 0)).then_some(Target { kind, id, part })
}

/// Returns the answer to a write; `None` means that the member does not exist.
fn made(status: u16, kind: &str, written: Option<WriteResult>) -> Reply {
    let Some(WriteResult { id, version, collection }) = written else {
        return complaint(404, "there is none");
    };
    let body = json!({"id": id, "versions": {format!("{kind}/{id}"): version, kind: collection}});
    Reply { status, body }
}

fn complaint(status: u16, text: &str) -> Reply {
    Reply { status, body: json!({"error": text, "versions": {}}) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &[u8] = br#"{"name":"n","description":"d"}"#;

    fn services() -> (tempfile::TempDir, Services) {
        let folder = tempfile::tempdir().unwrap();
        let services = Services::create(folder.path(), 5).unwrap();
        (folder, services)
    }

    #[test]
    fn answers_name_the_versions_of_all_that_they_were_built_from() {
        let (_folder, services) = services();
        let versions = |path| services.answer(Method::Get, path, b"").body["versions"].clone();
        assert_eq!(versions("/paths/5/info"), json!({"paths/5": 1, "users/1": 1}));
        assert_eq!(versions("/skills/1"), json!({"skills/1": 1, "users/2": 1}));
        assert_eq!(versions("/users/1"), json!({"users/1": 1}));
        assert_eq!(versions("/paths/5/steps"), json!({"paths/5": 1}));
        assert_eq!(versions("/users"), json!({"users": 1}));
        let made = services.answer(Method::Put, "/users/1", WORDS).body;
        assert_eq!(made["versions"], json!({"users/1": 2, "users": 2}));
        assert_eq!(versions("/paths/5"), json!({"paths/5": 1, "users/1": 2}));
        assert_eq!(services.answer(Method::Get, "/paths/5", b"").body["user"]["name"], "n");
    }

    #[test]
    fn a_deleted_user_keeps_a_version_and_may_return() {
        let (_folder, services) = services();
        for (method, path, status, versions) in [
            (Method::Delete, "/users/2", 200, json!({"users/2": 2, "users": 2})),
            (Method::Delete, "/users/2", 404, json!({})),
            (Method::Patch, "/users/2", 404, json!({})),
            (Method::Get, "/users/2", 404, json!({"users/2": 2})),
            (Method::Get, "/skills/1", 200, json!({"skills/1": 1, "users/2": 2})),
            (Method::Put, "/users/2", 200, json!({"users/2": 3, "users": 3})),
            (Method::Get, "/users/2/info", 200, json!({"users/2": 3})),
            (Method::Post, "/users", 201, json!({"users/6": 1, "users": 4})),
        ] {
            let reply = services.answer(method, path, WORDS);
            assert_eq!((reply.status, &reply.body["versions"]), (status, &versions), "{method:?} {path}");
        }
    }

    #[test]
    fn requests_without_a_route_or_valid_content_are_refused() {
        let (_folder, services) = services();
        for (method, path, content, status) in [
            (Method::Get, "/", &b""[..], 404),
            (Method::Get, "/feeds/1", b"", 404),
            (Method::Get, "/users/x", b"", 404),
            (Method::Get, "/users/0", b"", 404),
            (Method::Get, "/users/1/steps", b"", 404),
            (Method::Get, "/users/99", b"", 404),
            (Method::Post, "/users/1", WORDS, 405),
            (Method::Put, "/users/1/info", WORDS, 405),
            (Method::Put, "/users/99", WORDS, 404),
            (Method::Put, "/users/1", b"{", 400),
        ] {
            assert_eq!(services.answer(method, path, content).status, status, "{method:?} {path}");
        }
    }

    #[test]
    fn all_that_the_workload_asks_for_is_there() {
        let (_folder, services) = services();
        let crud = larder_lab::workload::Crud { requests: 0, entities: 5, writes: 0.2, exponent: 1.0 };
        for method in Method::ALL {
            for endpoint in crud.endpoints(method) {
                let reply = services.answer(method, &endpoint.path, WORDS);
                assert!(matches!(reply.status, 200 | 201), "{method:?} {}: {}", endpoint.path, reply.body);
                assert!(!reply.body["versions"].as_object().unwrap().is_empty());
            }
        }
    }
}
