// SPDX-License-Identifier: MIT
// Collections and threads; the compiler itself is what is tried.
use std::collections::{BTreeMap, HashMap};
use std::thread;

fn main() {
    let mut groups: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for i in 0..20000u64 {
        groups.entry(format!("k{}", i * 7919 % 997)).or_default().push(i);
    }
    let sums: HashMap<String, u64> =
        groups.iter().map(|(key, values)| (key.clone(), values.iter().sum())).collect();
    let mut sorted: Vec<_> = sums.into_iter().collect();
    sorted.sort();
    println!("{} {:?}", sorted.len(), sorted.last());
    let threads: Vec<_> = (0..4u64)
        .map(|n| thread::spawn(move || (0..1000).map(|i| vec![n; i]).map(|v| v.len()).sum::<usize>()))
        .collect();
    println!("{:?}", threads.into_iter().map(|t| t.join().unwrap()).collect::<Vec<_>>());
}
