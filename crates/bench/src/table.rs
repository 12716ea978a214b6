//! Tables as they go into the documentation.

pub fn print<const N: usize>(title: &str, header: [&str; N], rows: &[[String; N]]) {
    println!("\n### {title}\n");
    println!("| {} |", header.join(" | "));
    println!("|{}", "---|".repeat(N));
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
}

/// The value that this share of the sorted values stays within.
pub fn percentile(sorted: &[i64], share: f64) -> i64 {
    let place = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len());
    sorted[place - 1]
}

pub fn ms(micros: i64) -> String {
    format!("{:.2}", micros as f64 / 1000.0)
}
