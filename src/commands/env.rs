//! `larder env`: the settings by which programs that no command starts use a proxy and trust its authority.

use std::iter::repeat_n;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use larder_proxy::base::whole_file;
use larder_proxy::net::tls::authority::CertificateAuthority;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::run::environment::{ADDING, PROXY, REPLACING, SWITCHES, bundle, pem};
use crate::cli::files::{unread, unwritten};
use crate::cli::{Failure, say};
use crate::config::{authority, names};

pub(super) const EXAMPLES: &str = "\
Examples:
  eval \"$(larder env sh)\"
  larder env fish | source
  larder env github --proxy http://cache.example:3128 --ca larder-ca.pem
      lines for a step of a workflow, behind the larder of a team
  larder env docker
      what docker build needs, whose daemon no environment reaches";

/// The arguments of `env`.
#[derive(Debug, Args)]
pub(crate) struct EnvArgs {
    /// The reader of the lines
    form: Form,
    /// URL of the proxy
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:3128", value_parser = proxy)]
    proxy: String,
    /// File with the certificate of its authority, from larder ca export [default: that of this machine]
    #[arg(long, value_name = "FILE", value_parser = names::directory)]
    ca: Option<PathBuf>,
}

/// The readers of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Sh,
    Fish,
    Powershell,
    Docker,
    Buildkit,
    Testcontainers,
    Github,
    Gitlab,
}

/// Prints the lines.
pub(crate) fn run(args: &EnvArgs) -> Result<(), Failure> {
    let text = match &args.ca {
        Some(path) => certificates_in(path)?,
        None => of_this_machine()?.pem().to_owned(),
    };
    match args.form {
        Form::Docker => say(&docker(&args.proxy)),
        Form::Buildkit => say(&buildkit(&args.proxy)),
        Form::Testcontainers => say(&testcontainers(&args.proxy)),
        Form::Github | Form::Gitlab => say(&pipeline(args.form, &args.proxy, &text)),
        Form::Sh | Form::Fish | Form::Powershell => {
            let variables = variables(&args.proxy, &text)?;
            variables.iter().for_each(|(name, value)| say(&assignment(args.form, name, value)));
        }
    }
    Ok(())
}

/// Returns the certificates in a file, without what else is there.
fn certificates_in(path: &Path) -> Result<String, Failure> {
    let text = whole_file::text(path, whole_file::LARGEST)
        .map_err(|error| Failure::Failed(format!("cannot read {}: {}", path.display(), unread(&error))))?;
    let found = CertificateDer::pem_slice_iter(text.as_bytes()).flatten();
    let found: String = found.map(|certificate| pem(&certificate)).collect();
    match found.is_empty() {
        true => Err(Failure::Failed(format!(
            "{} has no certificate in PEM, as larder ca export prints it",
            path.display()
        ))),
        false => Ok(found),
    }
}

fn of_this_machine() -> Result<CertificateAuthority, Failure> {
    authority::files(None, "env").and_then(|files| authority::read(&files)).map_err(Failure::Failed)
}

/// Returns the variables with their values; their files are in the state directory.
fn variables(proxy: &str, ca: &str) -> Result<Vec<(&'static str, String)>, Failure> {
    let folder = crate::cli::state::state_directory();
    let folder = folder
        .ok_or_else(|| Failure::Failed("set STATE_DIRECTORY or HOME for the certificates".to_owned()))?;
    let write = |name: &str, text: &str| -> Result<String, Failure> {
        let path = folder.join(name);
        let failed =
            |error| Failure::Failed(format!("cannot write {}: {}", path.display(), unwritten(&error)));
        larder_store::private::make_directory(&folder).map_err(failed)?;
        larder_store::private::write(&path, text.as_bytes()).map_err(failed)?;
        Ok(path.display().to_string())
    };
    let all = write("bundle.pem", &bundle(ca))?;
    let alone = write("trusted.pem", ca)?;
    let mut variables: Vec<_> = PROXY.iter().map(|name| (*name, proxy.to_owned())).collect();
    variables.extend(REPLACING.iter().map(|name| (*name, all.clone())));
    variables.extend(ADDING.iter().map(|name| (*name, alone.clone())));
    variables.extend(SWITCHES.iter().map(|(name, value)| (*name, (*value).to_owned())));
    Ok(variables)
}

/// Returns the line that sets a variable in a shell.
fn assignment(form: Form, name: &str, value: &str) -> String {
    match form {
        Form::Fish => format!("set -gx {name} '{}'", value.replace('\\', "\\\\").replace('\'', "\\'")),
        // There, typographic quotes end a text, too.
        Form::Powershell => {
            let is_quote = |c: char| matches!(c, '\'' | '\u{2018}'..='\u{201b}');
            let value: String =
                value.chars().flat_map(|c| repeat_n(c, 1 + usize::from(is_quote(c)))).collect();
            format!("$env:{name} = '{value}'")
        }
        _ => format!("export {name}='{}'", value.replace('\'', "'\\''")),
    }
}

fn docker(proxy: &str) -> String {
    format!(
        "# docker build runs in a daemon, which no environment reaches. The proxy has to listen at an address that containers\n\
         # reach, such as that of docker0.\n\
         # 1. For RUN steps: pass the proxy, and trust the authority in the Dockerfile:\n\
         #    COPY larder-ca.pem /usr/local/share/ca-certificates/larder-ca.crt\n\
         #    RUN update-ca-certificates\n\
         docker build --build-arg HTTP_PROXY={proxy} --build-arg HTTPS_PROXY={proxy} .\n\
         # 2. For docker pull: /etc/docker/daemon.json, and the certificate among those of the system:\n\
         # {{ \"proxies\": {{ \"http-proxy\": \"{proxy}\", \"https-proxy\": \"{proxy}\" }} }}"
    )
}

fn buildkit(proxy: &str) -> String {
    format!(
        "docker buildx create --name larder --driver-opt env.http_proxy={proxy} --driver-opt env.https_proxy={proxy}\n\
         # Base images: mount larder-ca.pem in the builder by buildkitd.toml:\n\
         # [registry.\"docker.io\"]\n#   ca = [\"/etc/larder-ca.pem\"]"
    )
}

fn testcontainers(proxy: &str) -> String {
    format!(
        "# Testcontainers starts containers by the daemon: images as in larder env docker. For a container:\n\
         # .withEnv(\"HTTPS_PROXY\", \"{proxy}\") and .withCopyFileToContainer(larder-ca.pem, ..)\n\
         export HTTP_PROXY='{proxy}'\nexport HTTPS_PROXY='{proxy}'"
    )
}

/// Returns the lines for a step of a pipeline, which writes the certificate itself.
fn pipeline(form: Form, proxy: &str, ca: &str) -> String {
    let mut lines = format!(
        "cat > \"$HOME/larder-ca.pem\" <<'END'\n{}\nEND\n\
         cat /etc/ssl/certs/ca-certificates.crt \"$HOME/larder-ca.pem\" > \"$HOME/larder-bundle.pem\"",
        ca.trim_end()
    );
    let values = PROXY.iter().map(|name| (*name, proxy.to_owned()));
    let values = values.chain(REPLACING.iter().map(|name| (*name, "$HOME/larder-bundle.pem".to_owned())));
    let values = values.chain(ADDING.iter().map(|name| (*name, "$HOME/larder-ca.pem".to_owned())));
    for (name, value) in values.chain(SWITCHES.iter().map(|(name, value)| (*name, (*value).to_owned()))) {
        lines += &match form {
            Form::Github => format!("\necho \"{name}={value}\" >> \"$GITHUB_ENV\""),
            _ => format!("\nexport {name}=\"{value}\""),
        };
    }
    lines
}

/// Parses the URL of a proxy, whose characters have no meaning in a shell.
fn proxy(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    match rest.map(|rest| rest.trim_end_matches('/')) {
        Some(rest) if !rest.is_empty() && rest.bytes().all(is_plain) => {
            Ok(text.trim_end_matches('/').to_owned())
        }
        _ => {
            Err(format!("'{}' is not the URL of a proxy, such as http://127.0.0.1:3128", text.escape_debug()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Form, assignment};

    #[test]
    fn quotes_in_values_end_no_text_of_a_shell() {
        for (form, expected) in [
            (Form::Sh, r"export A='O'\''B ’ $(x) \'"),
            (Form::Fish, r"set -gx A 'O\'B ’ $(x) \\'"),
            (Form::Powershell, r"$env:A = 'O''B ’’ $(x) \'"),
        ] {
            assert_eq!(assignment(form, "A", r"O'B ’ $(x) \"), expected);
        }
    }
}
