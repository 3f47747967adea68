//! Polls Prometheus for GPU metrics.

use std::time::Duration;

use http::StatusCode;
use http_client::HttpClient;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::matching::{self, Gpu};
use super::{GpuError, GpuFeed};
use crate::prometheus::{Series, parse_series};

const PACE: Duration = Duration::from_secs(5);

/// For all three answers together; less than the pace.
const PATIENCE: Duration = Duration::from_secs(4);

/// Longest answer of Prometheus: enough for some thousand GPUs.
const MOST_BYTES: usize = 8 << 20;

const UTILIZATION: &str = "DCGM_FI_DEV_GPU_UTIL";

impl GpuFeed {
    /// Asks at once, then every five seconds, until `closing` fires.
    pub async fn poll(self, transport: HttpClient, closing: CancellationToken) {
        let mut ticks = interval(PACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let polling = async {
            loop {
                ticks.tick().await;
                let latest = match timeout(PATIENCE, self.read(&transport)).await {
                    Ok(latest) => latest,
                    Err(_) => Err(GpuError::Timeout(PATIENCE)),
                };
                self.keep(latest);
            }
        };
        closing.run_until_cancelled(polling).await;
    }

    fn keep(&self, latest: Result<Vec<Gpu>, GpuError>) {
        let url = &self.inner.url;
        let mut kept = self.inner.latest.lock();
        // Said once for each change, not every five seconds.
        match (&*kept, &latest) {
            (Ok(_), Err(error)) => warn!(url, %error, "GPU metrics are missing"),
            (Err(_), Ok(_)) => info!(url, "GPU metrics are available again"),
            (Ok(_), Ok(_)) | (Err(_), Err(_)) => {}
        }
        *kept = latest;
    }

    async fn read(&self, transport: &HttpClient) -> Result<Vec<Gpu>, GpuError> {
        let utilization = self.query(transport, UTILIZATION).await?;
        let used = self.query(transport, "DCGM_FI_DEV_FB_USED").await?;
        let free = self.query(transport, "DCGM_FI_DEV_FB_FREE").await?;
        match utilization.is_empty() && used.is_empty() {
            true => Err(GpuError::NoSeries(UTILIZATION)),
            false => Ok(matching::join(utilization, used, free)),
        }
    }

    async fn query(&self, transport: &HttpClient, metric: &str) -> Result<Vec<Series>, GpuError> {
        let address = format!("{}/api/v1/query?query={metric}", self.inner.url);
        let (status, body) = transport.get(&address, MOST_BYTES).await?;
        parse_series(&body).map_err(|error| match status {
            StatusCode::OK => error.into(),
            status => GpuError::Status { status, error },
        })
    }
}
