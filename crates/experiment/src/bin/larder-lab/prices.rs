//! The price table of `larder-lab experiment`: its file format, and its values.

use std::fs;
use std::path::Path;

use larder_cli::files::unread;
use larder_cli::units;
use larder_experiment::{Fees, Machine, Prices};
use serde::Deserialize;

/// The default table.
pub(super) const DEFAULT: &str = include_str!("prices.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    currency: String,
    beside: String,
    machine: Vec<MachineTable>,
    origin: Option<FeeTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FeeTable {
    requests: f64,
    gigabyte: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineTable {
    name: String,
    memory: String,
    price: f64,
}

/// Reads the table in `file`, or the built-in one. Errors: a line that names the file that cannot be read, or the
/// invalid value.
pub(super) fn read(file: Option<&Path>) -> Result<Prices, String> {
    let Some(path) = file else { return parse(DEFAULT) };
    let name = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| format!("cannot read prices '{name}': {}", unread(&error)))?;
    parse(&text).map_err(|why| format!("prices '{name}': {why}"))
}

fn parse(text: &str) -> Result<Prices, String> {
    let written: PriceFile = toml::from_str(text).map_err(|error| {
        let line =
            error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        format!("line {line}: {}", error.message().replace('\n', " "))
    })?;
    let machine = |MachineTable { name, memory, price }| {
        let memory = units::parse_size(&memory).map_err(|why| format!("memory of {name}: {why}"))?;
        let price = checked(price).map_err(|why| format!("price of {name}: {why}"))?;
        Ok(Machine { name, memory, price })
    };
    let fees = |FeeTable { requests, gigabyte }| {
        let requests = checked(requests).map_err(|why| format!("requests of the origin: {why}"))?;
        let gigabyte = checked(gigabyte).map_err(|why| format!("gigabyte of the origin: {why}"))?;
        Ok::<_, String>(Fees { requests, gigabyte })
    };
    let machines = written.machine.into_iter().map(machine).collect::<Result<Vec<_>, String>>()?;
    let beside = units::parse_size(&written.beside).map_err(|why| format!("beside: {why}"))?;
    let origin = written.origin.map(fees).transpose()?;
    Ok(Prices { currency: written.currency, beside, machines, origin })
}

fn checked(price: f64) -> Result<f64, String> {
    let is_price = price >= 0.0 && price.is_finite();
    if is_price { Ok(price) } else { Err(format!("{price} is not a number from 0 on")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reports_comparison_is_in_the_table_that_is_built_in() {
        let prices = read(None).unwrap();
        let price = |cache| prices.cheapest(cache).map(|machine| machine.price);
        assert_eq!((price(7 << 20), price(2_500 << 20)), (Some(3.74), Some(83.95)));
    }

    #[test]
    fn an_invalid_price_file_is_refused_with_the_faulty_key() {
        let machine = |memory: &str, price: &str| {
            format!(
                "currency = 'USD'\nbeside = '1MiB'\n[[machine]]\nname = 'm'\nmemory = '{memory}'\nprice = {price}\n"
            )
        };
        for (text, expected) in [
            (machine("1 GBit", "1"), "memory of m: "),
            (machine("1GiB", "-1"), "price of m: -1 is not a number from 0 on"),
            (machine("1GiB", "nan"), "price of m: NaN is not a number from 0 on"),
            (machine("1GiB", "1\ncolour = 'red'"), "line 7: unknown field `colour`"),
            (
                machine("1GiB", "1\n[origin]\nrequests = -1\ngigabyte = 1"),
                "requests of the origin: -1 is not",
            ),
            ("currency = ".to_owned(), "line 1: "),
        ] {
            let why = parse(&text).unwrap_err();
            assert!(why.starts_with(expected), "{why}");
        }
        let why = read(Some(Path::new("nowhere.toml"))).unwrap_err();
        assert!(why.starts_with("cannot read prices 'nowhere.toml': "), "{why}");
    }
}
