// Amounts are BigInts of wei, always, and are shown in coins. Nothing here rounds.

/** @typedef {"coins" | "gwei" | "wei"} Unit */

/** @type {Record<Unit, number>} */
export const UNITS = { coins: 18, gwei: 9, wei: 0 };
export const ONE_COIN = 10n ** 18n;
/** Digits of an amount that a person reads at a glance. */
const SHOWN_DIGITS = 6;
/** A gas price of whole gwei makes fees of no more. */
const MOST_DECIMALS = 9;
const MOST_WHOLE_DIGITS = 15;
const MAX_AMOUNT = 2n ** 256n - 1n;

/**
 * Digits in groups of three.
 * @param {bigint | number | string} integer
 */
export function grouped(integer) {
    return integer.toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

/**
 * The amount in a unit, exact, without zeros at the end: ["9,999", "99979"]; the second is "" for a whole one.
 * @param {bigint} amount
 * @param {number} decimals
 */
export function splitAmount(amount, decimals) {
    const digits = amount.toString().padStart(decimals + 1, "0");
    const whole = digits.slice(0, digits.length - decimals);
    const fraction = digits.slice(digits.length - decimals).replace(/0+$/, "");
    return [grouped(whole), fraction];
}

/**
 * @param {bigint} amount
 * @param {Unit} unit
 */
export function formatAmount(amount, unit) {
    const [whole, fraction] = splitAmount(amount, UNITS[unit]);
    return fraction ? `${whole}.${fraction}` : whole;
}

/**
 * The amount in digits alone, as programs take it.
 * @param {bigint} amount
 */
export const plainAmount = (amount) => formatAmount(amount, "coins").replaceAll(",", "");

/**
 * The first digits of an amount, and the rest of it: together they are the whole. An amount whose first digits say
 * nothing has a `brief` text that stands for it.
 * @param {bigint} amount
 * @param {Unit} unit
 * @returns {{ shown: string, rest: string, brief: string | null }}
 */
export function cutAmount(amount, unit) {
    const [whole, fraction] = splitAmount(amount, UNITS[unit]);
    const digits = whole.replaceAll(",", "");
    const text = fraction ? `${whole}.${fraction}` : whole;
    if (digits.length > MOST_WHOLE_DIGITS) {
        const brief = `${digits[0]}.${digits.slice(1, SHOWN_DIGITS)}e${digits.length - 1}`;
        return { shown: "", rest: text, brief };
    }
    const zeros = fraction.length - fraction.replace(/^0+/, "").length;
    const decimals = whole === "0" ? Math.min(MOST_DECIMALS, zeros + SHOWN_DIGITS) : Math.max(0, SHOWN_DIGITS - digits.length);
    const first = fraction.slice(0, decimals).replace(/0+$/, "");
    if (whole === "0" && fraction && !first) return { shown: "", rest: text, brief: `<0.${"1".padStart(MOST_DECIMALS, "0")}` };
    const shown = first ? `${whole}.${first}` : whole;
    return { shown, rest: text.slice(shown.length), brief: null };
}

/**
 * The unit as a word after that amount.
 * @param {bigint} amount
 */
export const coinsWord = (amount) => (amount === ONE_COIN ? "coin" : "coins");

/**
 * Every digit of an amount, in words.
 * @param {bigint} amount
 */
export const describeAmount = (amount) => `${formatAmount(amount, "coins")} ${coinsWord(amount)}`;

/**
 * Wei from what a person typed in a unit. Throws a RangeError that says what is wrong.
 * @param {string} text
 * @param {Unit} unit
 */
export function parseAmount(text, unit) {
    const match = /^(\d*)(?:\.(\d*))?$/.exec(text.trim());
    if (!match || !(match[1] || match[2]))
        throw new RangeError("Write the amount in digits, with a point if needed: 1.5");
    const [whole, fraction] = [match[1] || "0", match[2] ?? ""];
    const decimals = UNITS[unit];
    if (fraction.replace(/0+$/, "").length > decimals) {
        const one = unit === "coins" ? "coin" : unit;
        throw new RangeError(decimals ? `A ${one} has ${decimals} decimals at most.` : "Wei cannot be divided.");
    }
    const amount = BigInt(whole + fraction.slice(0, decimals).padEnd(decimals, "0"));
    if (amount > MAX_AMOUNT) throw new RangeError("That is more than any account can hold.");
    return amount;
}
