// The wallet of this browser, through the provider that it injects (EIP-1193).

import { checksummed } from "./addresses.js";

const DECLINED = 4001;
const UNKNOWN_CHAIN = 4902;
const COIN = { name: "Coin", symbol: "COIN", decimals: 18 };

/** The injected provider, or null. */
export const findWallet = () => window.ethereum ?? null;

export const hexQuantity = (number) => `0x${number.toString(16)}`;

async function request(wallet, method, ...params) {
    try {
        return await wallet.request({ method, params });
    } catch (failure) {
        // Some wallets put the reason of a failure inside another.
        const code = failure?.data?.originalError?.code ?? failure?.code;
        const text = code === DECLINED ? "You declined it in the wallet." : (failure?.message ?? "The wallet refused.");
        throw Object.assign(new Error(text), { code: code ?? "WALLET" });
    }
}

async function useChain(wallet, chainId) {
    if (BigInt(await request(wallet, "eth_chainId")) === chainId) return;
    const named = { chainId: hexQuantity(chainId) };
    try {
        await request(wallet, "wallet_switchEthereumChain", named);
    } catch (failure) {
        if (failure.code !== UNKNOWN_CHAIN) throw failure;
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

/** The accounts that the person lets this page see, with the wallet on this very chain. */
export async function connectWallet(wallet, chainId) {
    const accounts = await request(wallet, "eth_requestAccounts");
    await useChain(wallet, chainId);
    return accounts.map(checksummed);
}

/** Ask the wallet to sign and send; its hash. The chain is looked at again: people switch. */
export async function sendByWallet(wallet, { from, to, value, gas, gasPrice, chainId }) {
    await useChain(wallet, chainId);
    const fields = { from, to, value: hexQuantity(value), gas: hexQuantity(gas), gasPrice: hexQuantity(gasPrice) };
    return request(wallet, "eth_sendTransaction", fields);
}
