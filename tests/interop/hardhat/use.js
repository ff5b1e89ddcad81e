// Pays with hardhat's ethers and viem, with the defaults of both, and lets viem's test client steer the chain.
import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";
import { network } from "hardhat";

const COIN = 10n ** 18n;
const { ethers, viem } = await network.create();

const provider = ethers.provider;
assert.equal((await provider.getNetwork()).chainId, 1337n);
const [signer] = await ethers.getSigners();
const to = ethers.Wallet.createRandom().address;
const sent = await signer.sendTransaction({ to, value: COIN });
const receipt = await sent.wait();
assert.deepEqual([receipt.status, receipt.type], [1, 2]);
assert.equal(await provider.getBalance(to), COIN);
assert.equal((await provider.getBlock(receipt.blockNumber)).hash, receipt.blockHash);
assert.equal((await provider.getTransaction(sent.hash)).value, COIN);
const genesis = await provider.getBlock(0);
assert.equal((await provider.getBlock(genesis.hash)).number, 0);

const reader = await viem.getPublicClient();
const [wallet] = await viem.getWalletClients();
assert.equal(wallet.account.address.toLowerCase(), signer.address.toLowerCase());
const hash = await wallet.sendTransaction({ to, value: COIN });
const seen = await reader.waitForTransactionReceipt({ hash });
assert.deepEqual([seen.status, seen.type], ["success", "eip1559"]);
assert.equal(await reader.getBalance({ address: to }), 2n * COIN);

const test = await viem.getTestClient();
const before = await reader.getBlockNumber({ cacheTime: 0 });
await test.mine({ blocks: 3 });
assert.equal(await reader.getBlockNumber({ cacheTime: 0 }), before + 3n);
const id = await test.snapshot();
await test.setBalance({ address: to, value: 5n });
assert.equal(await reader.getBalance({ address: to }), 5n);
await test.revert({ id });
assert.equal(await reader.getBalance({ address: to }), 2n * COIN);

await test.setAutomine(false);
assert.equal(await test.getAutomine(), false);
const waiting = await wallet.sendTransaction({ to, value: 1n });
assert.equal((await reader.getTransaction({ hash: waiting })).blockNumber, null);
await test.setAutomine(true);
assert.equal(await test.getAutomine(), true);
assert.equal((await reader.waitForTransactionReceipt({ hash: waiting })).status, "success");
await test.setIntervalMining({ interval: 1 });
const height = await reader.getBlockNumber({ cacheTime: 0 });
while ((await reader.getBlockNumber({ cacheTime: 0 })) === height) await setTimeout(50);
await test.setIntervalMining({ interval: 0 });
await test.impersonateAccount({ address: wallet.account.address });
await test.stopImpersonatingAccount({ address: wallet.account.address });
console.log("hardhat: done");
