//! The proxy of a run: a forward proxy on a free port of this machine, in threads of this process.

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use larder_proxy::settings::AccessLog;
use larder_proxy::{Control, GivenSockets, Server, Settings};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::cache::Cache;
use super::{RunArgs, hosts};
use crate::cli::units::show_duration;
use crate::cli::{Failure, WatchAllocator, open_files};
use crate::config;
use crate::config::DatabasePlace;
use crate::config::flags::{Admin, Flags};

/// Memory for stored responses; the others are on disk, and in the page cache.
const MEMORY: u64 = 128 << 20;
/// The most threads: clients of a build are few.
const THREADS: usize = 4;

/// A proxy that serves.
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    control: UnboundedSender<Control>,
    thread: JoinHandle<()>,
}

impl Proxy {
    /// Starts the proxy.
    ///
    /// # Errors
    /// The reason why it cannot serve.
    pub(super) fn start(
        args: &RunArgs,
        cache: &Cache,
        watch_allocator: WatchAllocator,
    ) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
        let server = Server::bind(settings(args, cache)?, None, GivenSockets::default());
        let server = server.map_err(|error| failed(&error))?;
        watch_allocator(Arc::clone(server.store()))
            .map_err(|error| failed(&format!("cannot watch the allocator: {error}")))?;
        let address = server.addresses().first().map(|(_, address)| *address);
        let address = address.ok_or_else(|| failed(&"the proxy has no address"))?;
        let (control, commands) = unbounded_channel();
        let serve = move || {
            if let Err(error) = server.run(commands, |_| ()) {
                tracing::error!("{error}");
            }
        };
        let thread = thread::Builder::new().name("proxy".to_owned()).spawn(serve);
        let thread = thread.map_err(|error| failed(&format!("cannot start the proxy: {error}")))?;
        Ok(Self { address, control, thread })
    }

    /// Ends the proxy, after a short time for its last requests.
    pub(super) fn end(self) {
        // It may have ended with an error, which it has logged.
        let _ = self.control.send(Control::Drain);
        let _ = self.thread.join();
    }
}

fn settings(args: &RunArgs, cache: &Cache) -> Result<Settings, Failure> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let flags = Flags {
        forward: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
        admin: Some(Admin(None)),
        stats: Some(DatabasePlace::Off),
        threads: Some(cores.min(THREADS)),
        memory: Some(MEMORY),
        disk: vec![cache.responses()],
        disk_size: args.size.into_iter().collect(),
        access_log: Some(AccessLog::Json),
        access_log_file: Some(cache.requests()),
        // The command could reach them itself.
        allow_private: true,
        ..Flags::default()
    };
    let settings = config::of_command("larder run", &text(args), &flags);
    let mut settings = settings.map_err(|error| Failure::Refused(error.to_string()))?;
    settings.forward.ports = vec![1..=u16::MAX];
    settings.forward.connect_ports = (1..=u16::MAX).collect();
    open_files::plan(&mut settings).map_err(Failure::Refused)?;
    Ok(settings)
}

/// Returns the config of the proxy, without what its flags say.
fn text(args: &RunArgs) -> String {
    let hosts: Vec<_> = hosts(args).iter().map(|host| format!("'{host}'")).collect();
    // The proxies of the environment are for the world outside, as without this proxy.
    let mut text = "[timeouts]\ndrain = '2s'\n[parent]\nfrom_env = true\n".to_owned();
    // Writing to a string does not fail.
    let _ = writeln!(text, "[intercept]\nhosts = [{}]", hosts.join(", "));
    let min_age =
        args.min_age.map_or_else(String::new, |age| format!("min_age = '{}'\n", show_duration(age)));
    let _ = write!(text, "[[forward.rule]]\npackages = 'all'\n{min_age}");
    let wanted = match (args.offline, args.max_age) {
        (true, _) => Some("only-if-cached, max-stale".to_owned()),
        (false, max_age) => max_age.map(|age| format!("max-age={}", age.as_secs())),
    };
    if let Some(wanted) = wanted {
        let _ = writeln!(
            text,
            "[[forward.rule]]\nname = 'run'\nrequest = {{ set = {{ Cache-Control = '{wanted}' }} }}"
        );
    }
    if args.offline {
        text.push_str(ONLY_READS);
    }
    text
}

/// Refuses requests that no cache can answer.
const ONLY_READS: &str = "\
[[forward.rule]]
name = 'offline'
match = { not = { method = ['GET', 'HEAD', 'CONNECT'] } }
respond = 504
";
