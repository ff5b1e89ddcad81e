"""Python runs this in each process that a test starts: the defect is planted there too."""

import os

from tests.planted.defects import find_defect
from tests.planted.planting import plant

plant(find_defect(os.environ["PLANTED"]))
