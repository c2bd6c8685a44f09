//! Program and rows as nft JSON, in the types of the `nftables` crate.
//!
//! What that crate has no type for is written as plain JSON: comments of tables, sets that are
//! defined by example (`typeof`), the statement that remembers clients, and `drop` as the value of
//! a map. From JSON nft forgets what the key of a verdict map is an example of and keeps its types;
//! that is the one difference between this document and the script.

use std::borrow::Cow;
use std::collections::HashSet;

use ipnetwork::IpNetwork;
use nftables::expr::{
    BinaryOperation, CT, CTDir, Expression, Fib, FibFlag, FibResult, Map, Meta, MetaKey,
    NamedExpression, NgMode, Numgen, Payload, PayloadField, Prefix, SetItem,
};
use nftables::schema::{Chain, NfListObject};
use nftables::stmt::{
    self, JumpTarget, Mangle, NAT, NATFamily, NATFlag, Operator, Reject, RejectType, Statement,
    VerdictMap,
};
use nftables::types::{NfChainPolicy, NfChainType, NfFamily, NfHook};
use serde_json::{Result, Value, json, to_value};

use super::{Contents, Example, SLOT_EXAMPLE, is_single, key_examples, merges};
use crate::frontend::{Family, Protocol};
use crate::program::{
    Action, ChainDef, ChainKind, Field, Hook, HookPoint, Match, Rule, SERVICE_PROTOCOLS, SetDef,
    SetValue, TABLE, sets,
};
use crate::rows::{Row, RowKey, RowValue, SetName, Verdict};

type Expr = Expression<'static>;

/// One document for `nft -j -f` that replaces all these tables at once.
///
/// # Errors
/// Never for contents that were made by [`Contents::of`].
pub fn document(tables: &[Contents]) -> Result<Value> {
    let mut commands = Vec::new();
    for contents in tables {
        let family = contents.family().nft_name();
        let table = json!({ "family": family, "name": TABLE });
        commands.push(json!({ "add": { "table": table } }));
        commands.push(json!({ "delete": { "table": table } }));
        let comment = contents.program.comment();
        commands.push(json!({ "add": { "table":
            { "family": family, "name": TABLE, "comment": comment } } }));
        for set in contents.program.sets() {
            commands.push(set_object(&set, contents)?);
        }
        let chains: Vec<ChainDef> = contents.all_chains().collect();
        for chain in &chains {
            let object = NfListObject::Chain(chain_object(chain, contents.family()));
            commands.push(json!({ "add": to_value(object)? }));
        }
        for set in sets() {
            commands.extend(elements(set.name, contents)?);
        }
        for chain in &chains {
            for rule in &chain.rules {
                commands.push(rule_object(&chain.name, rule, contents.family())?);
            }
        }
    }
    Ok(json!({ "nftables": commands }))
}

fn set_object(set: &SetDef, contents: &Contents) -> Result<Value> {
    let family = contents.family();
    let examples = key_examples(set).into_iter().map(|part| example(part, family)).collect();
    let mut flags = Vec::new();
    let mut object = json!({
        "family": family.nft_name(),
        "table": TABLE,
        "name": set.name.as_str(),
        "type": { "typeof": to_value(concat(examples))? },
    });
    if let Some(size) = set.dynamic {
        flags.extend(["dynamic", "timeout"]);
        object["size"] = json!(size);
    }
    if set.interval {
        flags.push("interval");
    }
    if merges(set) {
        object["auto-merge"] = json!(true);
    }
    if !flags.is_empty() {
        object["flags"] = json!(flags);
    }
    match set.value {
        SetValue::None => return Ok(json!({ "add": { "set": object } })),
        SetValue::Verdict => object["map"] = json!("verdict"),
        // nft keeps what the key is an example of only if the value has an example, too.
        SetValue::Endpoint => {
            let value = key(&[Field::Destination, Field::Port], family);
            object["map"] = json!({ "typeof": to_value(value)? });
        }
    }
    Ok(json!({ "add": { "map": object } }))
}

fn example(part: Example, family: Family) -> Expr {
    field(
        match part {
            Example::Source => Field::Source,
            Example::Destination => Field::Destination,
            Example::Protocol => Field::Protocol,
            Example::Port => Field::Port,
            Example::Slot => Field::Random(SLOT_EXAMPLE),
        },
        family,
    )
}

fn chain_object(chain: &ChainDef, family: Family) -> Chain<'static> {
    let mut object = Chain {
        family: nf_family(family),
        table: TABLE.into(),
        name: chain.name.to_string().into(),
        ..Chain::default()
    };
    if let Some(Hook { kind, point, priority }) = chain.hook {
        object._type = Some(match kind {
            ChainKind::Filter => NfChainType::Filter,
            ChainKind::Nat => NfChainType::NAT,
        });
        object.hook = Some(match point {
            HookPoint::Prerouting => NfHook::Prerouting,
            HookPoint::Input => NfHook::Input,
            HookPoint::Forward => NfHook::Forward,
            HookPoint::Output => NfHook::Output,
            HookPoint::Postrouting => NfHook::Postrouting,
        });
        object.prio = Some(priority);
        object.policy = Some(NfChainPolicy::Accept);
    }
    object
}

fn nf_family(family: Family) -> NfFamily {
    match family {
        Family::V4 => NfFamily::IP,
        Family::V6 => NfFamily::IP6,
    }
}

/// The rows of one set, if it has any.
fn elements(set: SetName, contents: &Contents) -> Result<Option<Value>> {
    let rows = contents.rows_of(set);
    if rows.is_empty() {
        return Ok(None);
    }
    let elements = rows.iter().map(element).collect::<Result<Vec<Value>>>()?;
    Ok(Some(json!({ "add": { "element": {
        "family": contents.family().nft_name(),
        "table": TABLE,
        "name": set.as_str(),
        "elem": elements,
    } } })))
}

fn element(row: &Row) -> Result<Value> {
    let mut key = match row.key.frontend() {
        Some(frontend) => vec![
            string(frontend.address.to_string()),
            string(frontend.protocol.nft_name()),
            Expression::Number(frontend.port.into()),
        ],
        None => Vec::new(),
    };
    match row.key {
        RowKey::Backend(_, slot) | RowKey::LocalBackend(_, slot) => {
            key.push(Expression::Number(slot));
        }
        RowKey::AllowedSource(_, network) | RowKey::ServiceCidr(network) => {
            key.push(prefix(network));
        }
        RowKey::ClusterIp(address) => key.push(string(address.to_string())),
        RowKey::Hairpin(protocol, endpoint) => {
            let address = string(endpoint.address.to_string());
            key.extend([address.clone(), address, string(protocol.nft_name())]);
            key.push(Expression::Number(endpoint.port.into()));
        }
        _ => {}
    }
    let key = to_value(concat(key))?;
    let value = match row.value {
        RowValue::Member => return Ok(key),
        RowValue::Verdict(Verdict::Drop) => json!({ "drop": null }),
        RowValue::Verdict(Verdict::Goto(chain)) => to_value(Statement::Goto(target(&chain)))?,
        RowValue::Endpoint(endpoint) => to_value(concat(vec![
            string(endpoint.address.to_string()),
            Expression::Number(endpoint.port.into()),
        ]))?,
    };
    Ok(json!([key, value]))
}

fn rule_object(chain: &str, rule: &Rule, family: Family) -> Result<Value> {
    let mut statements = Vec::new();
    for condition in &rule.matches {
        statements.push(to_value(condition_statement(condition, family))?);
    }
    for action in &rule.actions {
        statements.push(match action {
            Action::Learn { key, timeout } => learn(key, *timeout, family)?,
            other => to_value(statement(other, family))?,
        });
    }
    Ok(json!({ "add": { "rule": {
        "family": family.nft_name(),
        "table": TABLE,
        "chain": chain,
        "expr": statements,
    } } }))
}

fn learn(fields: &[Field], timeout: u32, family: Family) -> Result<Value> {
    let endpoint = to_value(key(&[Field::Destination, Field::Port], family))?;
    let client = to_value(key(fields, family))?;
    Ok(json!({ "map": {
        "op": "update",
        "elem": { "elem": { "val": client, "timeout": timeout } },
        "data": endpoint,
        "map": reference(SetName::Affinity),
    } }))
}

fn condition_statement(condition: &Match, family: Family) -> Statement<'static> {
    let equal = |negated: &bool| if *negated { Operator::NEQ } else { Operator::EQ };
    let (left, op, right) = match condition {
        Match::InSet { key: fields, set, negated } => {
            (key(fields, family), equal(negated), string(reference(*set)))
        }
        Match::SourceIn { network, negated } => {
            (field(Field::Source, family), equal(negated), prefix(*network))
        }
        Match::InputInterface { name, prefix, negated } => {
            let star = if *prefix { "*" } else { "" };
            (meta(MetaKey::Iifname), equal(negated), string(format!("{name}{star}")))
        }
        Match::SourceIsLocal { negated } => {
            let flags = HashSet::from([FibFlag::Saddr]);
            let fib = NamedExpression::Fib(Fib { result: FibResult::Type, flags });
            (Expression::Named(fib), equal(negated), string("local"))
        }
        Match::StateNew => (ct("state", None), Operator::IN, string("new")),
        Match::Translated => (ct("status", None), Operator::IN, string("dnat")),
        Match::ServiceProtocol => {
            let names = SERVICE_PROTOCOLS.map(|p| SetItem::Element(string(p.nft_name())));
            let set = NamedExpression::Set(names.into());
            (meta(MetaKey::L4proto), Operator::EQ, Expression::Named(set))
        }
        Match::Tcp => (meta(MetaKey::L4proto), Operator::EQ, string(Protocol::Tcp.nft_name())),
        Match::Mark(mask) => {
            let masked = BinaryOperation::AND(meta(MetaKey::Mark), Expression::Number(*mask));
            (Expression::BinaryOperation(Box::new(masked)), Operator::NEQ, Expression::Number(0))
        }
    };
    Statement::Match(stmt::Match { left, right, op })
}

/// Everything but [`Action::Learn`], which has no type.
fn statement(action: &Action, family: Family) -> Statement<'static> {
    let current = || meta(MetaKey::Mark);
    match action {
        Action::SetMark(mask) => {
            set_mark(BinaryOperation::OR(vec![current(), Expression::Number(*mask)]))
        }
        Action::FlipMark(mask) => {
            set_mark(BinaryOperation::XOR(current(), Expression::Number(*mask)))
        }
        Action::VerdictMap { key: fields, map } => Statement::VerdictMap(VerdictMap {
            key: key(fields, family),
            data: string(reference(*map)),
        }),
        Action::Dnat { key: fields, map } => {
            let map = Map { key: key(fields, family), data: string(reference(*map)) };
            Statement::DNAT(Some(NAT {
                addr: Some(Expression::Named(NamedExpression::Map(Box::new(map)))),
                family: Some(match family {
                    Family::V4 => NATFamily::IP,
                    Family::V6 => NATFamily::IP6,
                }),
                port: None,
                flags: None,
            }))
        }
        Action::Masquerade => Statement::Masquerade(Some(NAT {
            addr: None,
            family: None,
            port: None,
            flags: Some(HashSet::from([NATFlag::FullyRandom])),
        })),
        Action::Goto(chain) => Statement::Goto(target(chain)),
        Action::RejectTcpReset => {
            Statement::Reject(Some(Reject::new(Some(RejectType::TCPReset), None)))
        }
        Action::Reject => Statement::Reject(None),
        Action::Learn { .. } | Action::Drop => Statement::Drop(None),
    }
}

fn set_mark(value: BinaryOperation<'static>) -> Statement<'static> {
    let value = Expression::BinaryOperation(Box::new(value));
    Statement::Mangle(Mangle { key: meta(MetaKey::Mark), value })
}

fn target(chain: &impl ToString) -> JumpTarget<'static> {
    JumpTarget { target: chain.to_string().into() }
}

fn reference(set: SetName) -> String {
    format!("@{set}")
}

fn key(fields: &[Field], family: Family) -> Expr {
    concat(fields.iter().map(|&one| field(one, family)).collect())
}

/// A concatenation, or the one part that needs none.
fn concat(mut parts: Vec<Expr>) -> Expr {
    if parts.len() == 1 {
        parts.remove(0)
    } else {
        Expression::Named(NamedExpression::Concat(parts))
    }
}

fn field(field: Field, family: Family) -> Expr {
    let ip = family.nft_name();
    match field {
        Field::Source => payload(ip, "saddr"),
        Field::Destination => payload(ip, "daddr"),
        Field::Protocol => meta(MetaKey::L4proto),
        Field::Port => payload("th", "dport"),
        Field::Random(modulus) => Expression::Named(NamedExpression::Numgen(Numgen {
            mode: NgMode::Random,
            ng_mod: modulus,
            offset: Some(0),
        })),
        Field::OriginalSource => ct(format!("{ip} saddr"), Some(CTDir::Original)),
        Field::OriginalDestination => ct(format!("{ip} daddr"), Some(CTDir::Original)),
        Field::OriginalPort => ct("proto-dst", Some(CTDir::Original)),
        Field::FrontendAddress(frontend) => string(frontend.address.to_string()),
        Field::FrontendPort(frontend) => Expression::Number(frontend.port.into()),
    }
}

fn payload(protocol: &'static str, field: &'static str) -> Expr {
    let field = PayloadField { protocol: protocol.into(), field: field.into() };
    Expression::Named(NamedExpression::Payload(Payload::PayloadField(field)))
}

fn meta(key: MetaKey) -> Expr {
    Expression::Named(NamedExpression::Meta(Meta { key }))
}

fn ct(key: impl Into<Cow<'static, str>>, dir: Option<CTDir>) -> Expr {
    Expression::Named(NamedExpression::CT(CT { key: key.into(), family: None, dir }))
}

fn string(text: impl Into<Cow<'static, str>>) -> Expr {
    Expression::String(text.into())
}

fn prefix(network: IpNetwork) -> Expr {
    let address = string(network.network().to_string());
    if is_single(network) {
        return address;
    }
    let len = network.prefix().into();
    Expression::Named(NamedExpression::Prefix(Prefix { addr: Box::new(address), len }))
}
