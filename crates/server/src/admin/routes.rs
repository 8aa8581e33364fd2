//! The table of the paths of the admin listener. Dispatch, the refusal of other methods, parameters and paths, and the
//! reference in `docs/operations.md` come from it.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use larder_words::hint;
use serde::Serialize;

use super::query::Query;
use super::{
    Answer, Call, Outcome, Refusal, State, Stats, advise, cache, cluster, config, explain, history, json,
    live, metrics, objects, page, purge, recent, shares, text,
};
use crate::features::edges::OF_SHIELD;

/// A path of the admin listener.
pub(super) struct Route {
    /// The only method; with `GET`, `HEAD` is understood as well.
    method: &'static str,
    /// The path. If it ends with [`NAME`], that stands for any text.
    path: &'static str,
    /// The parameters of the query; `None` if it is ignored.
    params: Option<&'static [&'static str]>,
    /// Whether clients need no token, since the answer only tells whether this process runs, or is a file of the page.
    pub(super) is_open: bool,
    /// The content of the answer, in Markdown.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares it with the docs"))]
    about: &'static str,
    run: Run,
}

/// Returns the answer to a request for a route.
type Run = for<'c> fn(Call<'c>) -> AnswerFuture<'c>;

/// An answer that is being made.
type AnswerFuture<'c> = Pin<Box<dyn Future<Output = Outcome> + Send + 'c>>;

/// The end of a path that stands for any text.
const NAME: &str = "NAME";

const fn get(path: &'static str, params: &'static [&'static str], about: &'static str, run: Run) -> Route {
    Route { method: "GET", path, params: Some(params), is_open: false, about, run }
}

const fn post(path: &'static str, params: &'static [&'static str], about: &'static str, run: Run) -> Route {
    Route { method: "POST", ..get(path, params, about, run) }
}

/// A route that ignores its query, as scrapers and health checks may add one.
const fn any(path: &'static str, about: &'static str, run: Run) -> Route {
    Route { params: None, ..get(path, &[], about, run) }
}

/// [`any`] for clients without a token.
const fn open(path: &'static str, about: &'static str, run: Run) -> Route {
    Route { is_open: true, ..any(path, about, run) }
}

/// THE TABLE of paths. The first one that a request's path matches answers it.
const ROUTES: &[Route] = &[
    open("/", "the dashboard, for browsers; other clients get a 404 with the list of paths", |call| {
        now(page::index(call.fields).ok_or_else(|| listing("browsers get the dashboard here".to_owned())))
    }),
    open("/page/NAME", "the files of the dashboard", |call| {
        now(page::file(call.name).ok_or_else(|| unknown(call.name)))
    }),
    any("/metrics", "[Prometheus metrics](metrics.md)", |call| {
        now(Ok(text(StatusCode::OK, metrics::TYPE, metrics::page(call.state))))
    }),
    any("/stats", "the counters now", |call| shown(&Stats::gather(call.state))),
    get("/live", &[], "the same as server-sent events, one a second", |call| now(live::figures(&call))),
    get("/recent", &["after"], "the counters of each second of the last ten minutes", |call| {
        now(recent::answer(&call))
    }),
    get("/history", &["by", "since"], "the counters in the [statistics database](statistics.md)", |call| {
        Box::pin(history::answer(call))
    }),
    get("/top", &["by", "minutes"], "the data of `larder top`", |call| now(live::top(&call))),
    get("/failures", &[], "the URLs and causes of failed requests of the last ten minutes", |call| {
        shown(&call.state.shared.observers.failures.report(Instant::now()))
    }),
    get("/log", &["site", "status", "outcome", "url", "slower_us"], "the data of `larder log`", |call| {
        now(live::log(&call))
    }),
    get("/why", &["url", "method", "header", "role"], "the data of `larder why`", |call| {
        Box::pin(explain::answer(call))
    }),
    get("/advise", &["since"], "the data of `larder advise`", |call| now(advise::answer(&call))),
    get("/advise/sites", &[], "the data of `larder advise --site`", |call| Box::pin(shares::answer(call))),
    post("/advise/apply", &["policy"], "puts another policy of the memory in force", |call| {
        now(advise::apply(&call))
    }),
    get("/validator", &[], "the findings of the [validator](validator.md)", |call| {
        let shared = &call.state.shared;
        shown(&shared.observers.validator.report(&shared.plan()))
    }),
    get("/couplings", &[], "the data of `larder stats --couplings`", |call| {
        let shared = &call.state.shared;
        shown(&shared.observers.couplings.found(&shared.plan()))
    }),
    get("/objects", &["search", "sort", "limit"], "the stored responses", |call| {
        Box::pin(objects::answer(call))
    }),
    get("/cache", &["url"], "the data of `larder cache ls`", |call| Box::pin(cache::list(call))),
    post("/cache/verify", &["rate"], "checks all responses on the disks", |call| {
        Box::pin(cache::verify(call))
    }),
    get("/cache/NAME", &[], "the response of this name on a disk", |call| Box::pin(cache::get(call))),
    get("/cluster", &[], "the data of `larder cluster`", |call| now(cluster::report(&call))),
    post("/cluster/drain", &["node"], "takes the keys from a node", |call| {
        Box::pin(cluster::drain(call, true))
    }),
    post("/cluster/resume", &["node"], "returns them", |call| Box::pin(cluster::drain(call, false))),
    post("/cluster/leave", &["timeout"], "gives its keys and hottest responses to other nodes", |call| {
        Box::pin(cluster::leave(call))
    }),
    get("/pools", &[], "the tag pools of [gateways](control.md)", |call| {
        shown(&call.state.shared.cache.gateways.report())
    }),
    get("/config", &[], "the data of `larder config diff`", |call| Box::pin(config::answer(call))),
    get("/about", &[], "version and listeners of this process", |call| {
        shown(&page::PageInfo::of(&call.state.shared))
    }),
    post(
        "/purge",
        &[
            "url", "prefix", "glob", "tag", "group", "host", "all", "soft", "hard", "count", "wait",
            "timeout", OF_SHIELD,
        ],
        "[purges](purge.md)",
        |call| Box::pin(purge::answer(call)),
    ),
    open("/healthz", "whether the process runs", |_| {
        now(Ok(text(StatusCode::OK, super::TEXT, "alive\n".to_owned())))
    }),
    open("/readyz", "whether it serves requests", |call| now(call.state.readiness())),
];

fn now(outcome: Outcome) -> AnswerFuture<'static> {
    Box::pin(ready(outcome))
}

fn shown(value: &impl Serialize) -> AnswerFuture<'static> {
    now(Ok(json(value)))
}

/// Returns the route for `path`, and the text in the place of its [`NAME`].
pub(super) fn find(path: &str) -> Option<(&'static Route, &str)> {
    ROUTES.iter().find_map(|route| match route.path.strip_suffix(NAME) {
        Some(start) => Some((route, path.strip_prefix(start)?)),
        None => (route.path == path).then_some((route, "")),
    })
}

/// Answers a request. Errors: the refusal of a path, method or parameter that is not in the table, or that of the
/// route.
pub(super) async fn run(state: &Arc<State>, method: &Method, uri: &Uri, fields: &HeaderMap) -> Outcome {
    let (route, name) = find(uri.path()).ok_or_else(|| unknown(uri.path()))?;
    if method != route.method && !(route.method == "GET" && method == Method::HEAD) {
        return Ok(route.refuse_method());
    }
    let query = Query::new(uri.query().unwrap_or_default());
    route.params.map_or(Ok(()), |known| query.check(known))?;
    (route.run)(Call { state, name, query, fields }).await
}

impl Route {
    fn refuse_method(&self) -> Response<Answer> {
        let why = format!("only {} is understood here", self.method);
        let mut refused = Response::from(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, why));
        refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static(self.method));
        refused
    }
}

/// Returns the refusal of a path that is not here, with the nearest one.
fn unknown(path: &str) -> Refusal {
    let paths = ROUTES.iter().map(|route| route.path).filter(|path| *path != "/" && !path.ends_with(NAME));
    listing(format!("'{}' is not here{}", path.escape_debug(), hint(path, paths)))
}

/// Returns the refusal for the reason `why`, with all paths.
fn listing(why: String) -> Refusal {
    let all: Vec<_> = ROUTES.iter().map(|route| route.path).collect();
    Refusal::new(StatusCode::NOT_FOUND, format!("{why}; there are {}", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::purge::ScopeKind;

    #[test]
    fn each_path_is_found_and_has_one_method() {
        for (at, route) in ROUTES.iter().enumerate() {
            let (found, name) = find(route.path).unwrap();
            assert_eq!((found.path, found.method), (route.path, route.method));
            assert_eq!(name, if route.path.ends_with(NAME) { NAME } else { "" });
            assert!(ROUTES[..at].iter().all(|earlier| earlier.path != route.path), "{}", route.path);
        }
        assert_eq!(
            find("/cache/00ff").map(|(route, name)| (route.path, name)),
            Some(("/cache/NAME", "00ff"))
        );
        assert!(find("/healthz/").is_none() && find("/caches").is_none());
    }

    #[test]
    fn an_unknown_path_gets_the_nearest_and_all_others() {
        let Refusal { status, why } = unknown("/metric");
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert!(why.starts_with("'/metric' is not here; did you mean '/metrics'?; there are /, "), "{why}");
        assert!(why.ends_with(", /purge, /healthz, /readyz"), "{why}");
        assert!(unknown("/cach").why.contains("did you mean '/cache'?"));
        assert!(unknown("/x").why.starts_with("'/x' is not here; there are /, "));
    }

    #[test]
    fn parameters_are_those_of_the_route() {
        let check =
            |path: &str, query| find(path).unwrap().0.params.map(|known| Query::new(query).check(known));
        assert_eq!(check("/metrics", "a"), None);
        for (path, query, error) in [
            ("/history", "form=a", "unknown parameter 'form'; known: by, since"),
            (
                "/log",
                "stauts=4xx",
                "unknown parameter 'stauts'; known: site, status, outcome, url, slower_us",
            ),
            ("/cache", "ulr=a", "unknown parameter 'ulr'; known: url"),
            ("/cache/00000000000000ff", "a", "this takes no parameters"),
            (
                "/purge",
                "x=b",
                "unknown parameter 'x'; known: url, prefix, glob, tag, group, host, all, soft, hard, count, wait, timeout, of_shield",
            ),
        ] {
            assert_eq!(check(path, query), Some(Err(error.to_owned())), "{path}");
        }
        assert!(find("/purge").unwrap().0.params.unwrap().starts_with(&ScopeKind::ALL.map(ScopeKind::name)));
    }

    #[test]
    fn the_docs_have_this_table() {
        let mut table = "| path | parameters | content |\n|---|---|---|\n".to_owned();
        for Route { method, path, params, about, .. } in ROUTES {
            let method = if *method == "GET" { "" } else { "POST " };
            let params: Vec<_> = params.iter().copied().flatten().map(|name| format!("`{name}`")).collect();
            table += &format!("| `{method}{path}` | {} | {about} |\n", params.join(" "));
        }
        let docs = include_str!("../../../../docs/operations.md");
        assert!(docs.contains(&table), "docs/operations.md has to contain:\n{table}");
    }
}
