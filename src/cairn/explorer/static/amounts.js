// Amounts are BigInts of wei, always. Nothing here rounds.

/** @typedef {"coins" | "gwei" | "wei"} Unit */

/** @type {Record<Unit, number>} */
export const UNITS = { coins: 18, gwei: 9, wei: 0 };
export const ONE_COIN = 10n ** 18n;
const COINS_FROM = 10n ** 15n;
const GWEI_FROM = 10n ** 9n;
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
 * The unit that reads best, as the command line chooses it: the digits that count come first.
 * @param {bigint} amount
 * @returns {Unit}
 */
export function fittingUnit(amount) {
    if (amount === 0n || amount >= COINS_FROM) return "coins";
    return amount >= GWEI_FROM ? "gwei" : "wei";
}

/**
 * The unit as a word after that amount.
 * @param {bigint} amount
 * @param {Unit} unit
 */
export const unitWord = (amount, unit) => (unit === "coins" && amount === ONE_COIN ? "coin" : unit);

/** @param {bigint} amount */
export function describeAmount(amount) {
    const unit = fittingUnit(amount);
    return `${formatAmount(amount, unit)} ${unitWord(amount, unit)}`;
}

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
