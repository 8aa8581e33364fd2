//! What one client brings about is not given to others: its cookies, its errors, its reloads.

use crate::support::{Answer, Client, Gate, Larder, Origin};

const SESSION: &str = "200 OK\nCache-Control: max-age=100\nSet-Cookie: session=0123456789abcdef\n\nbody";

fn cookie_of(larder: &Larder) -> Option<String> {
    larder.get("/").field("set-cookie").map(str::to_owned)
}

#[test]
fn a_cookie_goes_to_the_client_only_whose_request_it_answers() {
    let origin = Origin::always(SESSION);
    let larder = Larder::before(&origin);
    assert!(cookie_of(&larder).is_some());
    assert_eq!((cookie_of(&larder), origin.count()), (None, 1));
    let none = Larder::with_site(&[&origin], "store_cookies = 'none'");
    assert!((cookie_of(&none), cookie_of(&none)) == (Some("session=0123456789abcdef".to_owned()), None));
    let all = Larder::with_site(&[&origin], "store_cookies = 'all'");
    assert!(cookie_of(&all).is_some() && cookie_of(&all).is_some());
}

#[test]
fn a_cookie_that_tells_no_client_from_others_is_stored() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\nSet-Cookie: lang=en; Path=/\n\nbody");
    let larder = Larder::before(&origin);
    assert_eq!(
        (cookie_of(&larder), cookie_of(&larder)),
        (Some("lang=en; Path=/".to_owned()), Some("lang=en; Path=/".to_owned()))
    );
}

#[test]
fn those_who_wait_for_the_same_response_do_not_get_its_cookie() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::answering(move |_| {
        let head =
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nSet-Cookie: session=0123456789abcdef\r\n";
        Answer::raw(format!("{head}Content-Length: 4\r\n\r\nbo")).then_wait(&held).then("dy")
    });
    let larder = Larder::before(&origin);
    let mut clients: Vec<Client> = (0..5).map(|_| larder.client()).collect();
    let heads: Vec<_> = clients
        .iter_mut()
        .map(|client| {
            client.send("GET /");
            client.head()
        })
        .collect();
    gate.open();
    let cookies = heads.iter().filter(|head| head.field("set-cookie").is_some()).count();
    assert_eq!((cookies, origin.count()), (1, 1));
    assert!(heads[0].field("set-cookie").is_some());
    larder.settle();
}
