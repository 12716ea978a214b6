//! `scripted-upstream [ADDRESS]`: listens, for the demo and for trying things by hand.

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listening = scripted_upstream::Upstream::new(&["scripted"]).listen(&address).await?;
    println!("listens on {}", listening.url());
    tokio::signal::ctrl_c().await
}
