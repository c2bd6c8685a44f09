#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::view::{self, shop};

fn shown(show: impl FnOnce(&mut Page)) -> String {
    let mut page = Page::piped();
    show(&mut page);
    page.text().to_owned()
}

#[test]
fn services_of_the_shop() {
    let engine = shop::engine("node-a1");
    let api = view::services(&engine, &"shop/api".parse().unwrap());
    assert_eq!(
        shown(|page| services(page, &api)),
        "\
SERVICE   PORT     FRONTENDS                      INSIDE  OUTSIDE  NOTES
shop/api  443/TCP  10.102.171.101:443 ClusterIP   3 used  3 used   external Local
          https    172.18.0.11:30568 NodePort     3 used  1 used   load balancer only from
                   192.0.2.20:443 LoadBalancerIP  3 used  1 used   203.0.113.0/24, 198.51.100.0/25
"
    );
}

#[test]
fn frontends_of_every_service_stay_whole_beside_what_clients_meet() {
    let engine = shop::engine("node-a1");
    let all = view::services(&engine, &view::Filter::default());
    let text = shown(|page| services(page, &all));
    for frontend in all.iter().flat_map(|port| &port.frontends) {
        let whole = super::frontend(frontend);
        let line = text.lines().find(|line| line.contains(&format!("{whole} ")));
        let line = line.unwrap_or_else(|| panic!("{whole} is broken:\n{text}"));
        assert!(line.contains(&treatment(frontend.from_inside)), "{line}");
    }
}

#[test]
fn slices_of_the_shop() {
    let engine = shop::engine("node-a1");
    let search = view::slices(&engine, &"shop/search".parse().unwrap());
    assert_eq!(
        shown(|page| slices(page, &search)),
        "\
SLICE              SERVICE      PORTS     ENDPOINT     CONDITION  NODE     ZONE   HINTS
shop/search-6v7h5  shop/search  8080/TCP  10.244.3.13  ready      node-b1  eu-1b  eu-1b
                                          10.244.4.12  ready      node-c1  eu-1c  eu-1c
                                          10.244.5.13  ready      node-d1  us-1a  us-1a
                                          10.244.6.12  ready      node-d2  us-1a  us-1a
"
    );
}

#[test]
fn topology_of_the_shop() {
    let engine = shop::engine("node-b1");
    let search = view::topology(&engine, &"shop/search".parse().unwrap());
    assert_eq!(
        shown(|page| topology(page, &search)),
        "\
SERVICE PORT          FAMILY  LEVEL        USED  READY  ALL  REASON
shop/search:http/TCP  IPv4    hinted-zone  1     4      4    one endpoint is hinted for this
                                                             node's zone eu-1b
"
    );
}

#[test]
fn rows_and_what_is_wrong_with_them() {
    let mut engine = shop::engine("node-a1");
    let filter = "shop/empty".parse().unwrap();
    let desired = view::rows(&engine, &filter);
    assert_eq!(
        shown(|page| rows(page, &desired)),
        "\
SET             KEY                  VALUE
ip no-backends  10.102.5.156:80/TCP  goto reject-now
ip cluster-ips  10.102.5.156
"
    );
    let refused = engine
        .ledger()
        .desired_rows()
        .map(|row| row.key)
        .find(|key| key.to_string() == "10.102.5.156")
        .unwrap();
    engine.kernel_mut().refuse(refused, nix::libc::ENOSPC);
    engine.sync().unwrap();
    let applied = view::rows(&engine, &filter);
    assert_eq!(
        shown(|page| rows(page, &applied)),
        "\
SET             KEY                  VALUE            STATE
ip no-backends  10.102.5.156:80/TCP  goto reject-now  in the kernel
ip cluster-ips  10.102.5.156                          set aside: the kernel refused it: No space
                                                      left on device (os error 28)
"
    );
}

#[test]
fn nothing_is_said_in_words() {
    assert_eq!(shown(|page| services(page, &[])), "nothing to show\n");
    let none = view::KernelView { tables: vec![] };
    assert_eq!(shown(|page| kernel(page, &none)), "");
}
