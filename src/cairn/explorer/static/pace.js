// How fast blocks come while there is something to put into them.

/** @import { Header } from "./api.js" */

/** Fewer do not show how fast a chain is: somebody may have paid twice, an hour apart. */
const FEWEST = 3;

/** @typedef {{ seconds: number, isMean: boolean, intervals: number, pauses: number, longest: number }} BlockTime */

/**
 * The usual time from one block to the next, for blocks that had transactions to include. A chain without transactions
 * waits, so an interval of more than about twice the shortest one is a pause, and is left out; `longest` is the longest
 * that counts. Null as long as too few blocks came one after the other. Timestamps are whole seconds, so it is the
 * median, or the mean where several blocks share a second.
 * @param {Pick<Header, "timestamp" | "transactionCount">[]} mined Newest first, without the genesis block.
 * @returns {BlockTime | null}
 */
export function measuredBlockTime(mined) {
    const intervals = mined
        .slice(0, -1)
        .map(({ timestamp, transactionCount }, index) => ({ transactionCount, took: timestamp - mined[index + 1].timestamp }))
        .filter(({ transactionCount }) => transactionCount > 0n)
        .map(({ took }) => Number(took))
        .sort((one, other) => one - other);
    const longest = 2 * intervals[0] + 1;
    const counted = intervals.filter((took) => took <= longest);
    if (counted.length < FEWEST) return null;
    const isMean = counted[0] === 0;
    const mean = counted.reduce((sum, took) => sum + took, 0) / counted.length;
    return {
        seconds: isMean ? mean : counted[(counted.length - 1) >> 1],
        isMean,
        intervals: counted.length,
        pauses: intervals.length - counted.length,
        longest,
    };
}
