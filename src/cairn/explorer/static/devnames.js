// The accounts of a dev chain by the names that the command line has for them: dev0 to dev9.

import { checksummed } from "./addresses.js";

/**
 * The name of an address among the dev accounts, or null.
 * @param {string[]} dev
 * @param {string} address
 */
export function devName(dev, address) {
    const index = dev.indexOf(address.toLowerCase());
    return index < 0 ? null : `dev${index}`;
}

/**
 * The address of the dev account of that name, or null.
 * @param {string[]} dev
 * @param {string} text
 */
export function devAddress(dev, text) {
    const match = /^dev(\d{1,3})$/i.exec(text.trim());
    const address = match && dev[Number(match[1])];
    return address ? checksummed(address) : null;
}
