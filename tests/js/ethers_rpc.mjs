// ethers, as it is: send, wait for the receipt, watch blocks, over HTTP and WebSocket.
// Arguments: the node's URL, a private key, an address.
import assert from "node:assert/strict";
import { JsonRpcProvider, Wallet, WebSocketProvider, hexlify, parseEther, toUtf8Bytes, toUtf8String } from "ethers";

const [url, key, recipient] = process.argv.slice(2);
const rpc = url + "/rpc";

/**
 * What events of the provider tell first. What causes them is done again until then: a provider that begins to listen late
 * misses the first.
 */
async function heard(provider, event, cause) {
  const told = [];
  provider.on(event, (value) => told.push(value));
  do await cause();
  while (told.length === 0);
  await provider.off(event);
  return told[0];
}

async function transfer(provider) {
  const wallet = new Wallet(key, provider);
  const sent = await wallet.sendTransaction({ to: recipient, value: parseEther("1.5") });
  assert.equal(sent.type, 2, "where blocks have a base fee, ethers sends type 2");
  const receipt = await sent.wait();
  assert.equal(receipt.status, 1);
  assert.equal(receipt.hash, sent.hash);
  assert.equal(receipt.gasUsed, 21000n);
  const [before, after] = await Promise.all([1, 0].map((ago) => provider.getBalance(recipient, receipt.blockNumber - ago)));
  assert.equal(after, before + parseEther("1.5"));
  const block = await provider.getBlock(receipt.blockNumber, true);
  assert.equal(block.hash, receipt.blockHash);
  assert.ok(block.prefetchedTransactions.some((tx) => tx.hash === sent.hash));
  assert.equal((await provider.getTransaction(sent.hash)).from, wallet.address);
  return receipt;
}

async function reference(provider) {
  const wallet = new Wallet(key, provider);
  const text = "invoice 4711, Größe 東京";
  const bytes = toUtf8Bytes(text);
  const sent = await wallet.sendTransaction({ to: recipient, value: 1n, data: hexlify(bytes) });
  const receipt = await sent.wait();
  const gas = 21000n + 16n * BigInt(bytes.length);
  assert.deepEqual([receipt.status, receipt.gasUsed, sent.gasLimit], [1, gas, gas]);
  assert.equal(toUtf8String((await provider.getTransaction(sent.hash)).data), text);
  const tooLong = { to: recipient, value: 1n, data: "0x" + "00".repeat(257) };
  // ethers shows the node's words beside its own, because it takes a refused estimate for a contract's.
  await assert.rejects(wallet.sendTransaction(tooLong), (error) => /^oversized data: /.test(error.info.error.message));
  await assert.rejects(wallet.sendTransaction({ ...tooLong, gasLimit: 100000n }), /oversized data: /);
}

async function refusals(provider) {
  const wallet = new Wallet(key, provider);
  const poor = Wallet.createRandom(provider);
  await assert.rejects(poor.sendTransaction({ to: recipient, value: 1n, gasLimit: 21000n }), { code: "INSUFFICIENT_FUNDS" });
  await assert.rejects(wallet.sendTransaction({ to: recipient, nonce: 0, gasLimit: 21000n }), { code: "NONCE_EXPIRED" });
  await assert.rejects(
    wallet.sendTransaction({ to: recipient, type: 2, maxFeePerGas: 10n ** 8n, maxPriorityFeePerGas: 1n, gasLimit: 21000n }),
    /max fee per gas less than block base fee/,
  );
}

// Without its memory of a quarter of a second: a block may be here sooner, and the next nonce would be the last one.
const http = new JsonRpcProvider(rpc, undefined, { pollingInterval: 100, cacheTimeout: -1 });
assert.equal((await http.getNetwork()).chainId, 1337n);
const first = await transfer(http);
await refusals(http);
await reference(http);
const watched = await heard(http, "block", () => transfer(http));
assert.ok(watched >= first.blockNumber);
const pending = await heard(http, "pending", () => transfer(http));
assert.match(pending, /^0x[0-9a-f]{64}$/);
const signer = await http.getSigner(0);
await (await signer.sendTransaction({ to: recipient, value: 1n })).wait();
http.destroy();

const ws = new WebSocketProvider("ws" + rpc.slice("http".length), undefined, { cacheTimeout: -1 });
const announced = await heard(ws, "block", () => transfer(ws));
assert.ok(announced > first.blockNumber);
assert.match(await heard(ws, "pending", () => transfer(ws)), /^0x[0-9a-f]{64}$/);
console.log("ethers: done");
process.exit(0);
