// The chain of `make bench-peers`: PEERS_CHAIN names a JSON file with its accounts, block interval and gas limit.
import { readFileSync } from "node:fs";
import { defineConfig } from "hardhat/config";

const chain = JSON.parse(readFileSync(process.env.PEERS_CHAIN, "utf8"));
const { keys, balance, intervalMs, gasLimit, chainId, scratch } = chain;

export default defineConfig({
  paths: { artifacts: `${scratch}/artifacts`, cache: `${scratch}/cache` },
  networks: {
    node: {
      type: "edr-simulated",
      chainId,
      accounts: keys.map((privateKey) => ({ privateKey, balance })),
      blockGasLimit: BigInt(gasLimit),
      mining: intervalMs ? { auto: false, interval: intervalMs } : { auto: true },
    },
  },
});
