//! THE TABLE of public registries of packages: the hosts from which package managers and build tools download.

/// The word for all of them in `intercept.hosts`.
pub(crate) const WORD: &str = "registries";

/// Their hosts, by what they have; `*.` stands for all names below a domain. Beside a registry are hosts to which it redirects.
const HOSTS: &str = "
    # JavaScript
    registry.npmjs.org registry.yarnpkg.com repo.yarnpkg.com npm.jsr.io jsr.io deno.land dl.deno.land esm.sh
    nodejs.org
    # browsers, engines
    cdn.playwright.dev playwright.download.prss.microsoft.com download.cypress.io
    cdn.cypress.io binaries.prisma.sh
    # Python
    pypi.org files.pythonhosted.org conda.anaconda.org repo.anaconda.com repo.prefix.dev micro.mamba.pm
    download.pytorch.org download-r2.pytorch.org pypi.nvidia.com releases.astral.sh
    # Rust, Go
    index.crates.io static.crates.io static.rust-lang.org proxy.golang.org sum.golang.org go.dev
    dl.google.com
    # Java
    repo.maven.apache.org repo1.maven.org repo.spring.io packages.confluent.io plugins.gradle.org
    plugins-artifacts.gradle.org services.gradle.org downloads.gradle.org maven.google.com jitpack.io
    # Ruby, PHP, .NET
    rubygems.org index.rubygems.org repo.packagist.org getcomposer.org api.nuget.org www.nuget.org
    globalcdn.nuget.org builds.dotnet.microsoft.com
    # Elixir, Dart, Haskell, OCaml, Lua, Perl, R, Julia, Swift
    repo.hex.pm builds.hex.pm pub.dev hackage.haskell.org downloads.haskell.org opam.ocaml.org luarocks.org
    www.cpan.org cpan.metacpan.org cloud.r-project.org cran.r-project.org packagemanager.posit.co
    pkg.julialang.org storage.julialang.net cdn.cocoapods.org
    # systems, and vendors for them
    deb.debian.org security.debian.org snapshot.debian.org archive.ubuntu.com security.ubuntu.com
    ports.ubuntu.com ppa.launchpadcontent.net dl-cdn.alpinelinux.org mirrors.fedoraproject.org
    download.fedoraproject.org download.opensuse.org geo.mirror.pkgbuild.com cache.nixos.org
    channels.nixos.org releases.nixos.org formulae.brew.sh packages.microsoft.com download.docker.com
    pkgs.k8s.io apt.postgresql.org apt.llvm.org deb.nodesource.com
    # containers
    registry-1.docker.io production.cloudflare.docker.com production.cloudfront.docker.com
    docker-images-prod.6aa30f8b08e16409b46e0173d6de2f56.r2.cloudflarestorage.com ghcr.io
    pkg-containers.githubusercontent.com quay.io *.quay.io registry.k8s.io gcr.io *.pkg.dev
    mcr.microsoft.com *.data.mcr.microsoft.com public.ecr.aws
    # infrastructure
    registry.terraform.io registry.opentofu.org releases.hashicorp.com dl.k8s.io cdn.dl.k8s.io get.helm.sh
    charts.bitnami.com bcr.bazel.build mirror.bazel.build releases.bazel.build
    # source code, releases
    codeload.github.com objects.githubusercontent.com release-assets.githubusercontent.com
    raw.githubusercontent.com
    # models
    huggingface.co *.huggingface.co cdn-lfs.hf.co cdn-lfs-us-1.hf.co cas-bridge.xethub.hf.co
    transfer.xethub.hf.co
";

fn public() -> impl Iterator<Item = &'static str> {
    let lines = HOSTS.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(str::split_whitespace)
}

/// Returns `hosts` with the public registries in place of their word.
pub(crate) fn expand(hosts: &[String]) -> Vec<String> {
    let (words, mut all): (Vec<_>, Vec<_>) = hosts.iter().cloned().partition(|host| host == WORD);
    if !words.is_empty() {
        all.extend(public().map(str::to_owned));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{WORD, expand, public};
    use crate::config::names;

    #[test]
    fn the_word_stands_for_all_registries_beside_other_hosts() {
        let expanded = expand(&["a.test".to_owned(), WORD.to_owned()]);
        assert_eq!((expanded[0].as_str(), expanded.len()), ("a.test", 1 + public().count()));
        assert_eq!(expand(&["*".to_owned()]), ["*"]);
        for host in public() {
            assert_eq!(names::intercepted(host).as_deref(), Ok(host));
        }
    }
}
