// The node as a project names it: CAIRN_HTTP is its URL. Once it signs itself, once hardhat does, with the key CAIRN_KEY.
import hardhatEthers from "@nomicfoundation/hardhat-ethers";
import hardhatViem from "@nomicfoundation/hardhat-viem";
import { defineConfig } from "hardhat/config";

const url = process.env.CAIRN_HTTP;

export default defineConfig({
  plugins: [hardhatEthers, hardhatViem],
  networks: {
    remote: { type: "http", url },
    local: { type: "http", url, accounts: [process.env.CAIRN_KEY] },
  },
});
