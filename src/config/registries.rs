//! THE TABLE of public registries of packages: the hosts from which package managers and build tools download.

/// The word for all of them in `intercept.hosts`.
pub(crate) const WORD: &str = "registries";

/// Their hosts, by language or format; `*.` stands for all names below a domain.
const HOSTS: &[&str] = &[
    // JavaScript
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "repo.yarnpkg.com",
    "npm.jsr.io",
    "jsr.io",
    "deno.land",
    "nodejs.org",
    // Python
    "pypi.org",
    "files.pythonhosted.org",
    "conda.anaconda.org",
    "repo.anaconda.com",
    "download.pytorch.org",
    // Rust
    "index.crates.io",
    "static.crates.io",
    "static.rust-lang.org",
    // Go
    "proxy.golang.org",
    "sum.golang.org",
    "dl.google.com",
    // Java
    "repo.maven.apache.org",
    "repo1.maven.org",
    "plugins.gradle.org",
    "plugins-artifacts.gradle.org",
    "services.gradle.org",
    "downloads.gradle.org",
    "maven.google.com",
    "jitpack.io",
    // Ruby, PHP, .NET, Elixir, Dart, Haskell, Perl, R
    "rubygems.org",
    "index.rubygems.org",
    "repo.packagist.org",
    "api.nuget.org",
    "www.nuget.org",
    "globalcdn.nuget.org",
    "repo.hex.pm",
    "builds.hex.pm",
    "pub.dev",
    "hackage.haskell.org",
    "www.cpan.org",
    "cloud.r-project.org",
    // Systems
    "deb.debian.org",
    "security.debian.org",
    "archive.ubuntu.com",
    "security.ubuntu.com",
    "dl-cdn.alpinelinux.org",
    "mirrors.fedoraproject.org",
    "download.fedoraproject.org",
    "cache.nixos.org",
    "formulae.brew.sh",
    // Containers
    "registry-1.docker.io",
    "production.cloudflare.docker.com",
    "ghcr.io",
    "pkg-containers.githubusercontent.com",
    "quay.io",
    "registry.k8s.io",
    "mcr.microsoft.com",
    "public.ecr.aws",
    "gcr.io",
    // Archives of source code and of releases
    "codeload.github.com",
    "objects.githubusercontent.com",
    "release-assets.githubusercontent.com",
    "raw.githubusercontent.com",
    // Models
    "huggingface.co",
    "cdn-lfs.huggingface.co",
];

/// Returns `hosts` with the public registries in place of their word.
pub(crate) fn expand(hosts: &[String]) -> Vec<String> {
    let (words, mut all): (Vec<_>, Vec<_>) = hosts.iter().cloned().partition(|host| host == WORD);
    if !words.is_empty() {
        all.extend(HOSTS.iter().map(|host| (*host).to_owned()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{HOSTS, WORD, expand};
    use crate::config::names;

    #[test]
    fn the_word_stands_for_all_registries_beside_other_hosts() {
        let expanded = expand(&["a.test".to_owned(), WORD.to_owned()]);
        assert_eq!((expanded[0].as_str(), expanded.len()), ("a.test", 1 + HOSTS.len()));
        assert_eq!(expand(&["*".to_owned()]), ["*"]);
        for host in HOSTS {
            assert_eq!(names::host(host).as_deref(), Ok(*host));
        }
    }
}
