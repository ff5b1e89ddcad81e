// viem, as it is: send, wait for the receipt, watch blocks, over HTTP and WebSocket.
// Arguments: the node's URL, a private key, an address.
import assert from "node:assert/strict";
import {
  createPublicClient, createWalletClient, defineChain, fromHex, http, parseEther, size, stringToHex, webSocket,
} from "viem";
import { privateKeyToAccount } from "viem/accounts";

const [url, key, recipient] = process.argv.slice(2);
const rpc = url + "/rpc";
const timeout = 300_000;
const socketUrl = "ws" + rpc.slice("http".length);
const chain = defineChain({
  id: 1337,
  name: "Cairn",
  nativeCurrency: { name: "Coin", symbol: "COIN", decimals: 18 },
  rpcUrls: { default: { http: [rpc], webSocket: [socketUrl] } },
});
const account = privateKeyToAccount(key);

async function transfer(transport) {
  const reader = createPublicClient({ chain, transport, pollingInterval: 100 });
  const wallet = createWalletClient({ account, chain, transport });
  const before = await reader.getBalance({ address: recipient });
  const hash = await wallet.sendTransaction({ to: recipient, value: parseEther("0.25") });
  const receipt = await reader.waitForTransactionReceipt({ hash, timeout });
  assert.equal(receipt.status, "success");
  assert.equal(receipt.type, "eip1559");
  assert.equal(await reader.getBalance({ address: recipient }), before + parseEther("0.25"));
  assert.equal((await reader.getTransaction({ hash })).from, account.address.toLowerCase());
  assert.equal((await reader.getBlock({ blockNumber: receipt.blockNumber })).hash, receipt.blockHash);
  return receipt;
}

async function reference(transport) {
  const reader = createPublicClient({ chain, transport, pollingInterval: 100 });
  const wallet = createWalletClient({ account, chain, transport });
  const text = "invoice 4711, Größe 東京";
  const data = stringToHex(text);
  const hash = await wallet.sendTransaction({ to: recipient, value: 1n, data });
  const receipt = await reader.waitForTransactionReceipt({ hash, timeout });
  assert.deepEqual([receipt.status, receipt.gasUsed], ["success", 21_000n + 16n * BigInt(size(data))]);
  assert.equal(fromHex((await reader.getTransaction({ hash })).input, "string"), text);
  const tooLong = { to: recipient, data: `0x${"00".repeat(257)}` };
  for (const gas of [undefined, 100_000n]) {
    await assert.rejects(wallet.sendTransaction({ ...tooLong, gas }), /oversized data: /);
  }
}

/** The first value that `watch` tells. What causes it is done again until then: a watch that begins late misses the first. */
async function heard(watch, cause) {
  const told = [];
  const failed = [];
  const stop = watch((value) => told.push(value), (error) => failed.push(error));
  do {
    await cause();
    assert.deepEqual(failed, []);
  } while (told.length === 0);
  stop();
  return told[0];
}

for (const transport of [http(rpc, { timeout }), webSocket(socketUrl, { timeout })]) {
  const reader = createPublicClient({ chain, transport, pollingInterval: 100 });
  assert.equal(await reader.getChainId(), 1337);
  const first = await transfer(transport);
  const block = await heard(
    (onBlock, onError) => reader.watchBlocks({ onBlock, onError, emitMissed: true }), () => transfer(transport),
  );
  assert.ok(block.number >= first.blockNumber);
  const hashes = await heard(
    (onTransactions, onError) => reader.watchPendingTransactions({ onTransactions, onError }), () => transfer(transport),
  );
  assert.match(hashes[0], /^0x[0-9a-f]{64}$/);
  const [address] = await createWalletClient({ chain, transport }).getAddresses();
  assert.equal(address.toLowerCase(), account.address.toLowerCase());
  const byNode = createWalletClient({ account: address, chain, transport });
  const hash = await byNode.sendTransaction({ to: recipient, value: 1n });
  await reader.waitForTransactionReceipt({ hash, timeout });
  await reference(transport);
  assert.deepEqual(await reader.getLogs(), []);
}
console.log("viem: done");
process.exit(0);
