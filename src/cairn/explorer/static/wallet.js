// The wallet of this browser, through the provider that it injects (EIP-1193).

import { checksummed } from "./addresses.js";
import { asFailure } from "./api.js";
import { toHex } from "./bytes.js";
import { intrinsicGas } from "./references.js";

const DECLINED = 4001;
const UNKNOWN_CHAIN = 4902;
const COIN = { name: "Coin", symbol: "COIN", decimals: 18 };

/** @typedef {{ request: (call: { method: string, params: unknown[] }) => Promise<any> }} Wallet */

/**
 * The injected provider, or null.
 * @returns {Wallet | null}
 */
export const findWallet = () => /** @type {{ ethereum?: Wallet }} */ (window).ethereum ?? null;

/** @param {bigint} number */
const hexQuantity = (number) => `0x${number.toString(16)}`;

/**
 * @param {Wallet} wallet
 * @param {string} method
 * @param {unknown[]} params
 */
async function request(wallet, method, ...params) {
    try {
        return await wallet.request({ method, params });
    } catch (thrown) {
        const failure = /** @type {any} */ (thrown);
        // Some wallets put the reason of a failure inside another.
        const code = failure?.data?.originalError?.code ?? failure?.code;
        const text = code === DECLINED ? "You declined it in the wallet." : (failure?.message ?? "The wallet refused.");
        throw Object.assign(new Error(text), { code: code ?? "WALLET" });
    }
}

/**
 * @param {Wallet} wallet
 * @param {bigint} chainId
 */
async function useChain(wallet, chainId) {
    if (BigInt(await request(wallet, "eth_chainId")) === chainId) return;
    const named = { chainId: hexQuantity(chainId) };
    try {
        await request(wallet, "wallet_switchEthereumChain", named);
    } catch (failure) {
        if (asFailure(failure).code !== UNKNOWN_CHAIN) throw failure;
        const description = {
            ...named,
            chainName: `Cairn ${chainId}`,
            nativeCurrency: COIN,
            rpcUrls: [`${location.origin}/rpc`],
        };
        await request(wallet, "wallet_addEthereumChain", description);
        await request(wallet, "wallet_switchEthereumChain", named);
    }
}

/**
 * The accounts that the person lets this page see, with the wallet on this very chain.
 * @param {Wallet} wallet
 * @param {bigint} chainId
 */
export async function connectWallet(wallet, chainId) {
    /** @type {string[]} */
    const accounts = await request(wallet, "eth_requestAccounts");
    await useChain(wallet, chainId);
    return accounts.map(checksummed);
}

/**
 * Ask the wallet to sign and send; its hash. The chain is looked at again: people switch.
 * @param {Wallet} wallet
 * @param {{ from: string, to: string, value: bigint, data: Uint8Array, gasPrice: bigint, chainId: bigint }} transfer
 * @returns {Promise<string>}
 */
export async function sendByWallet(wallet, { from, to, value, data, gasPrice, chainId }) {
    await useChain(wallet, chainId);
    const gas = hexQuantity(intrinsicGas(data));
    const fields = { from, to, value: hexQuantity(value), gas, gasPrice: hexQuantity(gasPrice) };
    return request(wallet, "eth_sendTransaction", data.length ? { ...fields, data: toHex(data) } : fields);
}
